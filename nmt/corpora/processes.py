"""A function applied to items by several processes, in order and in bounded memory."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import TypeVar

from nmt.errors import DataError
from nmt.machine.exit_codes import how_it_ended

Item = TypeVar("Item")
Result = TypeVar("Result")

# With fewer items than this, starting processes takes longer than the work.
_WORTH_PROCESSES = 4


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Apply a function to each item, with about two items per worker in flight.

    Args:
        function: defined at the top level of its module, so that a process can import it.
        items: read as they are needed.
        workers: number of processes. With one worker or few items, no process is started.

    Raises:
        DataError: a worker process was killed, or ended on its own.
    """
    items = iter(items)
    beginning = list(itertools.islice(items, _WORTH_PROCESSES))
    if workers <= 1 or len(beginning) < _WORTH_PROCESSES:
        yield from map(function, itertools.chain(beginning, items))
        return
    others = set(active_children())
    started: list[BaseProcess] = []

    def submit(item: Item) -> Future[Result]:
        future = pool.submit(function, item)
        started.extend(set(active_children()) - others - set(started))
        return future

    # Each worker is a fresh interpreter: a fork would copy locks that the caller's threads hold.
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_initialise_worker) as pool:
            try:
                waiting = deque(map(submit, beginning))
                for item in items:
                    waiting.append(submit(item))
                    if len(waiting) > 2 * workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool:
        raise DataError(_describe_failure(started)) from None


def _describe_failure(workers: Iterable[BaseProcess]) -> str:
    """Which worker ended, and how. (The pool then ends all others by SIGTERM.)"""
    ended = [worker for worker in workers if worker.exitcode]
    first = min(ended, key=lambda worker: worker.exitcode == -signal.SIGTERM, default=None)
    what = "A worker process ended unexpectedly"
    if first is not None and first.exitcode is not None:
        what = f"Worker process {first.pid} {how_it_ended(first.exitcode)}"
    return f"{what}. Run the same command again, with fewer --jobs if memory ran out."


def _initialise_worker() -> None:
    """Ignore Ctrl-C, which the parent handles, and exit when the parent ends for any reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
