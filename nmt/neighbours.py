"""Beside busy neighbours, let OpenMP's threads sleep where they wait for each other.

GNU OpenMP lets a thread spin for milliseconds at a barrier before it sleeps. On a quiet machine that is the fastest way
to wait. Beside another busy process, the thread that all wait for is often the one without a core, and the others burn
theirs: training slows down many times over. GNU OpenMP itself spins 300 times less while it keeps more threads than the
process has cores (``gomp_throttled_spin_count_var`` in its source). So a watcher measures how long threads wait for a
core, and while they wait much, it has OpenMP keep some threads too many. These sleep and compute nothing: results stay
the same, bit for bit.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from pathlib import Path
from typing import Any

_OWN_THREADS = Path("/proc/self/task")
_SECONDS_BETWEEN_LOOKS = 1.0
# Of all threads together. Measured on 2 cores: 0.01 alone, 0.4 to 0.7 beside one busy process (docs/performance.md).
_CROWDED_SECONDS_PER_SECOND = 0.1


@functools.cache
def give_way_to_neighbours() -> None:
    """Start to watch for busy neighbours, in the background, for as long as this process lives.

    Does nothing where it could not help: where the system does not say how long a thread waited, without GNU OpenMP, or
    where the user has settled how threads wait (``GOMP_SPINCOUNT``, ``OMP_WAIT_POLICY``).
    """
    is_settled = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}.isdisjoint(os.environ)
    if not is_settled and _openmp() is not None and seconds_without_core() is not None:
        threading.Thread(target=_watch, name="neighbours", daemon=True).start()


def _watch() -> None:
    crowd: Crowd | None = None
    waited_before = seconds_without_core() or 0.0
    while True:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        waited = seconds_without_core() or waited_before
        is_crowded = waited - waited_before > _CROWDED_SECONDS_PER_SECOND * _SECONDS_BETWEEN_LOOKS
        waited_before = waited
        if is_crowded and crowd is None:
            crowd = Crowd()
        elif not is_crowded and crowd is not None:
            crowd.leave()
            crowd = None


def seconds_without_core() -> float | None:
    """How long the living threads of this process have waited for a core, in sum; None if the system does not say."""
    try:
        return sum(_nanoseconds_without_core(thread) for thread in _OWN_THREADS.iterdir()) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def _nanoseconds_without_core(thread: Path) -> int:
    try:
        return int((thread / "schedstat").read_text("ascii").split()[1])
    except (FileNotFoundError, ProcessLookupError):
        if thread.exists():
            raise
        return 0  # it has ended since it was listed


class Crowd:
    """As many threads as there are cores, which OpenMP keeps asleep until :meth:`leave`."""

    def __init__(self) -> None:
        self._may_leave = threading.Event()
        self._is_there = threading.Event()
        # OpenMP keeps the threads of a parallel region until the thread ends that began it.
        self._owner = threading.Thread(target=self._stay, name="crowd", daemon=True)
        self._owner.start()
        self._is_there.wait()

    def leave(self) -> None:
        """End the threads."""
        self._may_leave.set()
        self._owner.join()

    def _stay(self) -> None:
        openmp = _openmp()
        assert openmp is not None
        does_nothing = openmp.omp_get_num_procs
        openmp.GOMP_parallel(does_nothing, None, openmp.omp_get_num_procs() + 1, 0)
        self._is_there.set()
        self._may_leave.wait()


@functools.cache
def _openmp() -> Any:
    """GNU OpenMP, which torch has loaded; None where torch computes with another library."""
    try:
        library = ctypes.CDLL(None)
        return library if library.GOMP_parallel and library.omp_get_num_procs else None
    except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library of all that is loaded
        return None
