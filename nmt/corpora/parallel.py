"""Work shared out to processes, in order and in bounded memory."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import TypeVar

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
    """
    items = iter(items)
    beginning = list(itertools.islice(items, _WORTH_PROCESSES))
    if workers <= 1 or len(beginning) < _WORTH_PROCESSES:
        yield from map(function, itertools.chain(beginning, items))
        return
    # A fresh interpreter for each worker: a fork would copy whatever threads the caller has, half-way through.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin_worker) as pool:
        try:
            waiting = deque(pool.submit(function, item) for item in beginning)
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:

        def follow() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=follow, daemon=True).start()
