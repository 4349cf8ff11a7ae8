"""Batches searched at the same time, each by its share of the processor.

Threads suffice, and share the weights: torch lets go of the interpreter while it computes. Several searches of one
thread each get more out of a processor than one of many threads, which wait for each other after every operation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from nmt.device import Hardware

Item = TypeVar("Item")
Result = TypeVar("Result")


class AbandonedError(Exception):
    """Nobody waits any more for what this worker does."""


class Workers:
    """So many workers, or fewer where there is not so much to do."""

    def __init__(self, hardware: Hardware, count: int | None = None) -> None:
        """Settle how many there are.

        Args:
            count: by default one for each thread of a CPU; a GPU is kept busy by one. On a CPU not more than threads.
        """
        self._threads = hardware.threads
        is_cpu = hardware.device.type == "cpu"
        self.count = min(count or self._threads, self._threads) if is_cpu else count or 1
        self._of_thread = threading.local()

    def look_up(self) -> None:
        """For the function that is mapped, to call now and then.

        Raises:
            AbandonedError: its result is not needed any more, because another failed or the user interrupts.
        """
        is_abandoned = getattr(self._of_thread, "is_abandoned", None)
        if is_abandoned is not None and is_abandoned.is_set():
            raise AbandonedError

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """What a function makes of each item, in their order."""
        count = min(self.count, len(items))
        if count <= 1:
            yield from map(function, items)
            return
        share = max(1, self._threads // count)
        threads = torch.get_num_threads()
        is_abandoned = threading.Event()

        def begin() -> None:
            torch.set_num_threads(share)
            self._of_thread.is_abandoned = is_abandoned

        executor = ThreadPoolExecutor(count, "search", initializer=begin)
        try:
            yield from executor.map(function, items)
        finally:
            # After an error, or Ctrl-C, nobody waits for what was not begun, and not long for what was.
            is_abandoned.set()
            executor.shutdown(cancel_futures=True)
            # What a worker sets for itself becomes the number of every thread that begins later.
            torch.set_num_threads(threads)
