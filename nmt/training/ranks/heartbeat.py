"""Heartbeats between ranks on several machines.

A machine that vanishes, by a power cut or without its network, closes no connection. Whoever exchanges with it would
wait until the exchange gives up, after half an hour. So a thread of each rank counts up a number in the store that all
ranks share, whatever the rank does meanwhile: validate, save, compile. A rank that sees another's number stand still
ends itself, because its own main thread may wait in C, where no Python exception arrives.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

BEAT_SECONDS = 5.0
MISSED_BEATS = 12
"""A rank that misses so many beats is lost."""
_CONNECTING = timedelta(seconds=60)


class Counters(Protocol):
    """A store that all ranks share."""

    def add(self, name: str, amount: int) -> int:
        """Add to a counter and return its value."""
        ...


def store_of_launcher() -> Counters:
    """A connection of its own to the store that torch's ranks meet at: another one may be busy waiting.

    Raises:
        RuntimeError: the store does not answer.
    """
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store: Counters = PrefixStore("nmt heartbeats", TCPStore(address, port, timeout=_CONNECTING))
    return store


@contextmanager
def watching_others(rank: int, size: int, store: Counters, lost: Callable[[list[int]], None]) -> Iterator[None]:
    """Send heartbeats, and look for those of the other ranks, while the body runs.

    Args:
        lost: called once, in a thread, with the ranks that send no more. If the store does not answer, these are
            all others.
    """
    others = [other for other in range(size) if other != rank]
    beats_missed = dict.fromkeys(others, 0)
    last_seen = dict.fromkeys(others, -1)
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.is_set():
            with contextlib.suppress(RuntimeError):  # the other thread counts what was missed
                store.add(str(rank), 1)
                for other in others:
                    seen = store.add(str(other), 0)
                    if seen != last_seen[other]:
                        last_seen[other], beats_missed[other] = seen, 0
            is_over.wait(BEAT_SECONDS)

    def count_missed() -> None:
        # Beats are counted, not seconds: while this process is stopped or the machine sleeps, none is missed. A thread
        # of its own, since a store on a machine that vanished may never answer.
        while not is_over.wait(BEAT_SECONDS):
            for other in others:
                beats_missed[other] += 1
            if silent := [other for other in others if beats_missed[other] > MISSED_BEATS]:
                lost(silent)
                return

    threads = [threading.Thread(target=target, name=target.__name__, daemon=True) for target in (beat, count_missed)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        threads[1].join()
        threads[0].join(BEAT_SECONDS)
