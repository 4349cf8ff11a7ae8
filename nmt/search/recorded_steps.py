"""The steps of small searches on a GPU, recorded once for each size (nmt/kernels/recording.py).

A large search keeps a GPU busy while the host launches its kernels one by one, and it attends to no more than the
pieces so far. In a small one the GPU would wait for the host.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from nmt.kernels.recording import Work
from nmt.model.transformer import Transformer
from nmt.search.beam import Beam, Size
from nmt.search.settings import SearchSettings
from nmt.search.step import step

# Each recording takes memory of the driver.
_MAX_RECORDINGS = 128
# Recordings of other settings are kept too, since the guard searches again with its own; each has tensors of its own.
_MAX_FREE = 3
# Tensors for both a long and a wide search may take many times the memory of each.
_HEADROOM = 1.5


class Recordings:
    """The recorded steps of one search at a time, and the tensors that they compute with."""

    def __init__(self, models: Sequence[Transformer], settings: SearchSettings) -> None:
        """Nothing is recorded before a search."""
        self._models = models
        self._settings = settings
        assert models[0].recorder is not None
        self._recorder = models[0].recorder()
        self._beam: Beam | None = None
        self._length_1 = torch.zeros(1, dtype=torch.int64, device=models[0].device)
        self._steps: OrderedDict[Size, Work] = OrderedDict()

    def take_over(self, beam: Beam, size: Size, length: int) -> Beam:
        """Continue a search with the tensors of the recordings, which are returned.

        Args:
            beam: the tensors of the search so far.
            size: what the next steps compute with.
            length: the number of pieces so far.
        """
        held = self._beam
        if held is None or _dtype(held) != _dtype(beam) or not size.is_within(held.size):
            held = self._enlarged(beam, size)
        if held is not beam:
            for state in held.states:
                state.past_BWX.fill_(-torch.inf)
                state.memory_mask_B11S[..., 1:] = -torch.inf
                # Masked keys and values, and those of rows without a sentence, must be finite.
                for layer in state.layers:
                    for tensor in (*layer.written, *layer.memory):
                        tensor.zero_()
            held.take(beam.narrowed(size).used(length))
        self._length_1.fill_(length)
        return held

    def _enlarged(self, beam: Beam, size: Size) -> Beam:
        """New tensors, also for what was held if that takes little more. All recordings are lost."""
        width = beam.tokens_BW.shape[1]
        if self._beam is not None:
            both = size.joined(self._beam.size)
            largest = max(each.positions(width) for each in (size, self._beam.size))
            size = both if both.positions(width) <= _HEADROOM * largest else size
        self._steps.clear()
        self._beam = None  # its memory is released first, unless the search continues from it
        self._beam = beam.resized(Tensor.new_zeros, size)
        return self._beam

    def step(self, size: Size) -> None:
        """Make a step with the tensors that were taken over, narrowed to a size."""
        if size not in self._steps:
            assert self._beam is not None
            beam = self._beam.narrowed(size)

            def work() -> None:
                step(self._models, beam, self._settings, self._length_1)
                self._length_1.add_(1)

            self._steps[size] = self._recorder.record(work)
            if len(self._steps) > _MAX_RECORDINGS:
                self._steps.popitem(last=False)
        else:
            self._steps.move_to_end(size)
            self._steps[size]()


class RecordedSteps:
    """Recorded steps of searches with the same models. Keep it for later searches, which use the recordings again."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        """Nothing is allocated or recorded before a search."""
        self._models = models
        self._free: list[tuple[object, Recordings]] = []
        """By what steps depend on, the last used last."""
        self._lock = threading.Lock()

    @contextmanager
    def reserved(self, settings: SearchSettings) -> Iterator[Recordings | None]:
        """Recordings for one search, which no search of another thread uses meanwhile; None if the device has none."""
        if self._models[0].recorder is None:
            yield None
            return
        key = _read_by_steps(settings)
        with self._lock:
            index = next((index for index, (other, _) in enumerate(self._free) if other == key), None)
            found = Recordings(self._models, settings) if index is None else self._free.pop(index)[1]
        yield found
        # A search that fails drops its recordings: it may have run out of memory.
        with self._lock:
            self._free = [*self._free, (key, found)][-_MAX_FREE:]

    def release(self) -> None:
        """Release the memory of all recordings that no search uses now."""
        with self._lock:
            self._free.clear()


def _read_by_steps(settings: SearchSettings) -> object:
    """The settings that a step depends on."""
    sampling = None if settings.sampling is None else settings.sampling.model_copy(update={"seed": 0})
    return settings.beam, settings.kept, settings.min_length, settings.no_repeat_ngram, sampling


def _dtype(beam: Beam) -> torch.dtype:
    return beam.states[0].past_BWX.dtype
