"""Batches searched at the same time, each with its share of the processor's threads.

Workers are threads, which share the weights: torch releases the GIL while it computes. Several searches with one thread
each are faster than one search with many threads, because those threads wait for each other after every operation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class AbandonedError(Exception):
    """Raised in a worker whose result is no longer needed."""


class Workers:
    """A pool of worker threads. It starts no more workers than there are batches, and keeps none.

    Shared workers are the threads that call :meth:`map`: each call computes in its own thread. The callers see to it
    that there are no more such threads than workers.
    """

    def __init__(
        self,
        threads: int,
        count: int | None = None,
        *,
        on_cpu: bool = True,
        shared: bool = False,
        set_threads: Callable[[int], object] = lambda threads: None,
    ) -> None:
        """Choose the number of workers.

        Args:
            threads: the threads of the processor that the workers share.
            count: at most the number of threads on a CPU. Default: one per thread on a CPU, one on a GPU.
            on_cpu: whether the workers compute on the CPU.
            shared: whether several threads call :meth:`map` at the same time.
            set_threads: sets the number of threads that the calling worker computes with.
        """
        self._threads = threads
        self.count = min(count or threads, threads) if on_cpu else count or 1
        self.threads_of_each = max(1, threads // self.count)
        self.are_shared = shared
        self.of_one_call = 1 if shared else self.count
        """The workers that a call of :meth:`map` has."""
        self._set_threads = set_threads
        self._of_thread = threading.local()
        if shared:
            set_threads(self.threads_of_each)

    def check_abandoned(self) -> None:
        """Stop the calling worker if its result is no longer needed. Mapped functions call this regularly.

        Raises:
            AbandonedError: another worker failed, or the user interrupted.
        """
        is_abandoned = getattr(self._of_thread, "is_abandoned", None)
        if is_abandoned is not None and is_abandoned.is_set():
            raise AbandonedError

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results of ``function`` for all items, in order."""
        count = min(self.count, len(items))
        if count <= 1 or self.are_shared:
            yield from map(function, items)
            return
        is_abandoned = threading.Event()
        executor = self._executor(count, is_abandoned)
        try:
            yield from executor.map(function, items)
        finally:
            # After an error or Ctrl-C, waiting batches are cancelled and running ones stop at their next step.
            is_abandoned.set()
            executor.shutdown(cancel_futures=True)
            # torch applies a worker's number of threads to all threads that start later.
            self._set_threads(self._threads)

    def _executor(self, count: int, is_abandoned: threading.Event) -> ThreadPoolExecutor:
        def begin() -> None:
            self._set_threads(max(1, self._threads // count))
            self._of_thread.is_abandoned = is_abandoned

        return ThreadPoolExecutor(count, "search", initializer=begin)
