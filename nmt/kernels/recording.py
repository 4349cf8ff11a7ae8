"""Work of a GPU that is recorded once and then launched whole (a CUDA graph).

An update of few rows, or a step of a search, is a thousand small kernels. A host needs longer to launch them one by one
than the GPU needs to run them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import torch

Work = Callable[[], None]


class Recorder(Protocol):
    """Records work on one device."""

    failure: str | None
    """Why work could not be recorded; None if all was. Work that cannot be recorded is run again kernel by kernel."""

    def record(self, work: Work) -> Work:
        """Run work, and return a function that runs it again.

        The work is called twice, and only the kernels that it launches are recorded. So it must read from and write to
        tensors that stay where they are, and must not wait for the device. What it computes lies in these tensors: its
        other tensors share their memory with other recordings.

        Numbers drawn at random are drawn anew in each run, from the device's generator and its seed at that time.
        """
        ...


class CudaRecorder:
    """Records work on a CUDA GPU. All recordings share memory, so one runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self.failure: str | None = None
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Work) -> Work:
        """As :meth:`Recorder.record`."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with without_cached_casts():
            # Libraries prepare themselves in the first run, which cannot be recorded. It takes the stream of the
            # recording: autograd runs a gradient on the stream on which it was run first.
            with torch.cuda.stream(self._stream):
                work()
            current.wait_stream(self._stream)
            try:
                replay: Work = self._recorded(work)
            except RuntimeError as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self.failure = str(error)
                return work
        return replay

    def _recorded(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        current = torch.cuda.current_stream(self._device)
        try:
            # Other threads, which prepare batches, may use the device meanwhile.
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                work()
        finally:
            # Where the recording fails, torch may leave its stream current.
            torch.cuda.set_stream(current)
        replay: Work = graph.replay
        return replay


@contextmanager
def without_cached_casts() -> Iterator[None]:
    """Let autocast cast weights anew in each product: casts that it keeps are gone when the work runs again."""
    was_enabled = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(was_enabled)


def cuda_recorder_if_possible(device: torch.device) -> Callable[[], Recorder] | None:
    """What makes a :class:`CudaRecorder`, if this GPU and its driver can record: small work is tried."""
    if not torch.cuda.is_available():
        return None
    try:
        _try_to_record(device)
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return None
    return partial(CudaRecorder, device)


def _try_to_record(device: torch.device) -> None:
    number = torch.zeros((), device=device)

    def count() -> None:
        number.add_(1)

    recorder = CudaRecorder(device)
    recorder.record(count)()
    if recorder.failure is not None or number.item() != 2:
        raise RuntimeError("recorded work does not repeat what it did")
