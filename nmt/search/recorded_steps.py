"""The steps of searches on a GPU, each recorded once for its size (nmt/kernels/recording.py)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from nmt.kernels.recording import Recorder, Work
from nmt.model.transformer import Transformer
from nmt.search.step_buffers import Arena, DecoderShape, Layout, Size, StepBuffers, bytes_of, layout

# Each recording takes some megabytes of the driver's memory.
_MOST_RECORDINGS = 64

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


class RecordedSteps:
    """Steps of searches with one model at one precision, and the memory that they compute in.

    Keep it for later searches, which then record only new sizes.
    """

    def __init__(self, model: Transformer) -> None:
        """Nothing is allocated or recorded before a search."""
        self._model = model
        self._recorder: Recorder | None = None
        self._arena: Arena | None = None
        self._steps: OrderedDict[object, RecordedStep] = OrderedDict()
        self._in_use = threading.Lock()

    @contextmanager
    def reserved(self) -> Iterator[RecordedSteps]:
        """The steps for one search: these, or new ones while another thread searches with these."""
        if not self._in_use.acquire(blocking=False):
            yield RecordedSteps(self._model)
            return
        try:
            yield self
        except BaseException:
            self.clear()  # the memory may have ended
            raise
        finally:
            self._in_use.release()

    def clear(self) -> None:
        """Release all memory."""
        self._steps.clear()
        self._arena = None
        self._recorder = None

    def of_size(self, size: Size, decoder: DecoderShape, step: Step, key: object, looks_every: int) -> RecordedStep:
        """The step of a size. What other sizes hold is lost.

        Args:
            step: what to record.
            key: equal for equal steps.
            looks_every: steps between two looks of the host.
        """
        tensors = layout(size, decoder, looks_every)
        self._make_room(tensors)
        assert self._arena is not None and self._model.kernels.recorder is not None
        if self._recorder is None:
            self._recorder = self._model.kernels.recorder()
        found = self._steps.pop((size, key), None)
        if found is None:
            buffers = StepBuffers(self._arena.tensors(tensors), decoder.layers)
            found = RecordedStep(buffers, partial(step, self._model, buffers), self._recorder)
        self._steps[size, key] = found
        if len(self._steps) > _MOST_RECORDINGS:
            self._steps.popitem(last=False)
        return found

    def _make_room(self, tensors: Layout) -> None:
        if self._arena is None or not self._arena.fits(tensors):
            self.clear()
            self._arena = Arena(self._model.device, bytes_of(tensors))
