"""Work of a GPU that is recorded once and then launched whole (a CUDA graph).

A step of a search is hundreds of small kernels. A host needs longer to launch them one by one than the GPU needs to run
them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import ClassVar, Protocol

import torch

from nmt.machine.device import is_out_of_memory, keep_memory, release_memory

Work = Callable[[], None]

# Recording needs as much memory as the work itself, and a little for the recording.
_SHARE_OF_FREE_MEMORY = 0.9
# A process may record one graph at a time.
_one_at_a_time = threading.Lock()


class Recorder(Protocol):
    """Records work on one device."""

    @property
    def failure(self) -> str | None:
        """Why work could not be recorded; None if it could. After a failure nothing is recorded."""
        ...

    def record(self, work: Work) -> Work:
        """Run work, and return a function that runs it again: as it was recorded, or kernel by kernel if it was not.

        The work is called twice, and only the kernels that it launches are recorded. So it must read from and write to
        tensors that stay where they are, and must not wait for the device. What it computes lies in these tensors: its
        other tensors share their memory with other recordings.

        Random numbers are drawn anew in each run, from the device's generator and its seed at that time.
        """
        ...


class CudaRecorder:
    """Records work on a CUDA GPU. All recordings of a recorder share memory: run only one at a time."""

    failures: ClassVar[dict[torch.device, str]] = {}
    """Why a GPU records no more, of each that does not."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = _stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    @property
    def failure(self) -> str | None:
        """As :attr:`Recorder.failure`, for all recorders of a GPU: torch does not release a failed recording."""
        return self.failures.get(self._device)

    def record(self, work: Work) -> Work:
        """As :meth:`Recorder.record`. Work whose recording would not fit into the free memory is not recorded."""
        current = torch.cuda.current_stream(self._device)
        with _one_at_a_time, without_cached_casts():
            release_memory(self._device)  # so that what the work needs is reserved anew, and can be measured
            before = torch.cuda.memory_reserved(self._device)
            self._stream.wait_stream(current)
            try:
                # The first run initialises libraries, which cannot be recorded. It uses the stream of the recording,
                # because libraries keep memory per stream.
                with torch.cuda.stream(self._stream):
                    work()
            finally:
                current.wait_stream(self._stream)
            need = torch.cuda.memory_reserved(self._device) - before
            if self.failure is not None or not self._fits(need):
                return work
            try:
                return self._recorded(work)
            except RuntimeError as error:
                keep_memory(self._device)
                if is_out_of_memory(error):
                    raise
                self.failures[self._device] = str(error)
                return work

    def _fits(self, need: int) -> bool:
        release_memory(self._device)
        free, _ = torch.cuda.mem_get_info(self._device)
        return need <= _SHARE_OF_FREE_MEMORY * free

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


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """The stream of all recordings on a GPU."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


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
        failure = _try_to_record(device)
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        failure = str(error)
    if failure is not None:
        CudaRecorder.failures[device] = failure
        return None
    return partial(CudaRecorder, device)


def _try_to_record(device: torch.device) -> str | None:
    """Why work cannot be recorded, if it cannot."""
    number = torch.zeros((), device=device)

    def count() -> None:
        number.add_(1)

    recorder = CudaRecorder(device)
    recorder.record(count)()
    if recorder.failure is None and number.item() != 2:
        return "recorded work computed something else when it ran again"
    return recorder.failure
