"""The steps of small searches on a GPU, recorded once for each size (nmt/kernels/recording.py).

A large search keeps a GPU busy while the host launches its kernels one by one, and it attends to no more than the
pieces so far. In a small one the GPU would wait for the host.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from nmt.kernels.recording import Work
from nmt.model.transformer import Transformer
from nmt.search.beam import Beam, Size
from nmt.search.settings import SearchSettings
from nmt.search.step import step

MAX_ROWS = 1_024
"""Hypotheses of the largest search whose steps are recorded."""
# Each recording takes memory of the driver.
_MAX_RECORDINGS = 128


class Recordings:
    """The recorded steps of one search at a time, and the tensors that they compute with."""

    def __init__(self, models: Sequence[Transformer], settings: SearchSettings) -> None:
        """Nothing is recorded before a search."""
        self._models = models
        self._settings = settings
        assert models[0].recorder is not None
        self._recorder = models[0].recorder()
        self._beam: Beam | None = None
        self._count_1 = torch.zeros(1, dtype=torch.int64, device=models[0].device)
        self._steps: OrderedDict[Size, Work] = OrderedDict()

    def hold(self, beam: Beam, size: Size, steps: int) -> Beam:
        """Tensors for a size at least, which hold what a beam holds after a number of steps.

        If those of earlier searches are too small, the recordings are lost with them.
        """
        held = self._beam
        if held is None or _dtype(held) != _dtype(beam) or not size.is_within(held.size):
            whole = size if held is None else size.joined(held.size)
            self._steps.clear()
            self._beam = held = None  # releases the memory before the new one is allocated
            # Rows without a sentence are computed too, so all they hold must be finite.
            self._beam = held = beam.resized(Tensor.new_zeros, whole)
        if held is not beam:
            for state in held.states:
                state.past_BWX.fill_(-torch.inf)
                state.memory_mask_B11S[..., 1:] = -torch.inf
            held.take(beam.narrowed(size).used(steps))
        self._count_1.fill_(steps)
        return held

    def step(self, size: Size) -> None:
        """Make a step with the tensors that are held, narrowed to a size."""
        if size not in self._steps:
            assert self._beam is not None
            beam = self._beam.narrowed(size)

            def work() -> None:
                step(self._models, beam, self._settings, self._count_1)
                self._count_1.add_(1)

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
        self._free: defaultdict[SearchSettings, list[Recordings]] = defaultdict(list)

    @contextmanager
    def reserved(self, settings: SearchSettings) -> Iterator[Recordings | None]:
        """Recordings for one search, which no search of another thread uses meanwhile; None if the device has none."""
        if self._models[0].recorder is None:
            yield None
            return
        try:
            found = self._free[settings].pop()
        except IndexError:
            found = Recordings(self._models, settings)
        yield found
        # A search that fails drops its recordings: it may have run out of memory.
        self._free[settings].append(found)

    def release(self) -> None:
        """Release the memory of all recordings that no search uses now."""
        self._free.clear()


def _dtype(beam: Beam) -> torch.dtype:
    return beam.states[0].past_BWX.dtype
