"""The steps of searches on a GPU, recorded once for each size (nmt/kernels/recording.py)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from nmt.kernels.recording import Recorder, Work
from nmt.model.transformer import Transformer
from nmt.search.step_buffers import Arena, DecoderShape, StepBuffers, bytes_of, layout
from nmt.search.step_sizes import Size

# Each recording takes memory of the driver.
_MAX_RECORDINGS = 128
# Batches of equally many pieces differ in size, because their numbers of sentences and pieces are rounded up.
_HEADROOM = 1.25

Step = Callable[[Transformer, StepBuffers], None]
"""A step of a search with a model, from buffers into the same buffers."""


class RecordedStep:
    """A step of one size, which is recorded when it is first run."""

    def __init__(self, buffers: StepBuffers, work: Work, recorder: Recorder) -> None:
        self.buffers = buffers
        self._work = work
        self._recorder = recorder
        self._replay: Work | None = None

    def run(self) -> None:
        """Make a step."""
        if self._replay is None:
            self._replay = self._recorder.record(self._work)
        else:
            self._replay()


class Recordings:
    """The recorded steps of one search at a time, and the memory that they compute in."""

    def __init__(self, model: Transformer, recorder: Recorder) -> None:
        """Nothing is allocated or recorded before a search."""
        self._model = model
        self._recorder = recorder
        self._arena = Arena(model.device, 0)
        self._steps: OrderedDict[object, RecordedStep] = OrderedDict()

    def step_of(self, size: Size, decoder: DecoderShape, step: Step, key: object, looks_every: int) -> RecordedStep:
        """The step of a size. What other sizes hold is lost; if more memory is needed, also their recordings.

        Args:
            step: what to record.
            key: equal for equal steps.
            looks_every: steps between two looks of the host.
        """
        tensors = layout(size, decoder, looks_every)
        if not self._arena.fits(tensors):
            self._steps.clear()
            self._arena = Arena(self._model.device, 0)  # releases the memory before the new one is allocated
            self._arena = Arena(self._model.device, int(_HEADROOM * bytes_of(tensors)))
        found = self._steps.pop((size, decoder, key), None)
        if found is None:
            buffers = StepBuffers(self._arena.tensors(tensors), decoder.layers)
            found = RecordedStep(buffers, partial(step, self._model, buffers), self._recorder)
        self._steps[size, decoder, key] = found
        if len(self._steps) > _MAX_RECORDINGS:
            self._steps.popitem(last=False)
        return found


class RecordedSteps:
    """Recorded steps of searches with one model. Keep it for later searches, which use the recordings again."""

    def __init__(self, model: Transformer) -> None:
        """Nothing is allocated or recorded before a search."""
        self._model = model
        self._free: list[Recordings] = []

    @contextmanager
    def reserved(self) -> Iterator[Recordings]:
        """Recordings for one search, which no search of another thread uses meanwhile."""
        try:
            found = self._free.pop()
        except IndexError:
            assert self._model.recorder is not None
            found = Recordings(self._model, self._model.recorder())
        yield found
        # A search that fails drops its recordings: it may have run out of memory.
        self._free.append(found)

    def release(self) -> None:
        """Release the memory of all recordings that no search uses now."""
        self._free.clear()
