"""A function applied to items by several processes, in order and in bounded memory."""

from __future__ import annotations

import itertools
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from nmt.errors import DataError
from nmt.machine.calls import CalledProcess, ProcessLostError, Tell

Item = TypeVar("Item")
Result = TypeVar("Result")

# With fewer items than this, starting processes takes longer than the work.
_WORTH_PROCESSES = 4


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Apply a function to each item, with about two items per worker in flight.

    Args:
        function: defined at the top level of a module, so that a process can import it.
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
    free: queue.SimpleQueue[CalledProcess] = queue.SimpleQueue()

    def apply(item: Item) -> Result:
        process = free.get()
        try:
            result: Result = process.call("apply", function, item)
        finally:
            free.put(process)
        return result

    processes: list[CalledProcess] = []
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for _ in range(workers):
                # multiprocessing would run the caller's main module again, which may be a script without a guard.
                processes.append(CalledProcess("A worker process", _Worker, told=lambda message: None))
                free.put(processes[-1])
            for item in itertools.chain(beginning, items):
                waiting.append(pool.submit(apply, item))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except ProcessLostError as error:
            raise DataError(f"{error} Run the same command again, with fewer --jobs if memory ran out.") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.end(RuntimeError("the results are no longer needed"))


class _Worker:
    """Applies functions in a worker process."""

    def __init__(self, tell: Tell) -> None: ...

    def apply(self, function: Callable[[Any], object], item: object) -> object:
        """What a function returns for an item."""
        return function(item)
