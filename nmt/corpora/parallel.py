"""Work shared out to processes, in order and in bounded memory."""

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
from nmt.processes import how_it_ended

Item = TypeVar("Item")
Result = TypeVar("Result")

# With fewer items than this, starting processes takes longer than the work.
_WORTH_PROCESSES = 4


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Apply a function to each item, with no more of them in flight than keep the workers busy.

    Args:
        function: at the top level of its module, so that a process finds it.
        items: read as they are needed.
        workers: processes; with one, or with few items, the work is done in this one.

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

    # A fresh interpreter for each worker: a fork would copy whatever threads the caller has, half-way through.
    try:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin_worker) as pool:
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
        raise DataError(_what_broke(started)) from None


def _what_broke(workers: Iterable[BaseProcess]) -> str:
    """Name the worker that ended, and how. The pool ends all others by SIGTERM."""
    ended = [worker for worker in workers if worker.exitcode]
    first = min(ended, key=lambda worker: worker.exitcode == -signal.SIGTERM, default=None)
    what = "A worker process ended unexpectedly"
    if first is not None and first.exitcode is not None:
        what = f"Worker process {first.pid} {how_it_ended(first.exitcode)}"
    return f"{what}. Run the same command again, with fewer --workers if memory ran out."


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
