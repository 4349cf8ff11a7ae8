"""Make OpenMP's threads sleep, not spin, at barriers while other processes are busy.

GNU OpenMP lets a thread spin for milliseconds at a barrier before it sleeps. On an idle machine this is the fastest way
to wait. While another process is busy, the thread that all wait for often has no core, and the spinning threads waste
theirs: training becomes many times slower. GNU OpenMP spins 300 times less while it has more threads than the process
has cores (``gomp_throttled_spin_count_var`` in its source). So a watcher measures how long threads wait for a core.
While they wait long, it makes OpenMP keep surplus threads. These sleep and compute nothing: results are the same, bit
for bit.
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
_SECONDS_BETWEEN_CHECKS = 1.0
# Sum over all threads. Measured on 2 cores: 0.01 alone, 0.4 to 0.7 beside one busy process (docs/performance.md).
_BUSY_SECONDS_PER_SECOND = 0.1


@functools.cache
def adapt_waiting_to_load() -> None:
    """Start the watcher in the background, for the lifetime of this process.

    It does nothing if the system does not report how long threads wait, without GNU OpenMP, or if the user has set how
    threads wait (``GOMP_SPINCOUNT``, ``OMP_WAIT_POLICY``).
    """
    is_set = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}.isdisjoint(os.environ)
    if not is_set and _openmp() is not None and seconds_without_core() is not None:
        threading.Thread(target=_watch, name="openmp-waiting", daemon=True).start()


def _watch() -> None:
    surplus: SurplusThreads | None = None
    waited_before = seconds_without_core() or 0.0
    while True:
        time.sleep(_SECONDS_BETWEEN_CHECKS)
        waited = seconds_without_core() or waited_before
        is_busy = waited - waited_before > _BUSY_SECONDS_PER_SECOND * _SECONDS_BETWEEN_CHECKS
        waited_before = waited
        if is_busy and surplus is None:
            surplus = SurplusThreads()
        elif not is_busy and surplus is not None:
            surplus.end()
            surplus = None


def seconds_without_core() -> float | None:
    """The total time that the living threads of this process have waited for a core; None if unknown."""
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
        return 0  # The thread has ended since it was listed.


class SurplusThreads:
    """Surplus threads, as many as there are cores, which OpenMP keeps asleep until :meth:`end`."""

    def __init__(self) -> None:
        self._may_end = threading.Event()
        self._have_started = threading.Event()
        # OpenMP keeps the threads of a parallel region until the thread that began the region ends.
        self._owner = threading.Thread(target=self._stay, name="surplus", daemon=True)
        self._owner.start()
        self._have_started.wait()

    def end(self) -> None:
        """End the threads."""
        self._may_end.set()
        self._owner.join()

    def _stay(self) -> None:
        openmp = _openmp()
        assert openmp is not None
        does_nothing = openmp.omp_get_num_procs
        openmp.GOMP_parallel(does_nothing, None, openmp.omp_get_num_procs() + 1, 0)
        self._have_started.set()
        self._may_end.wait()


@functools.cache
def _openmp() -> Any:
    """GNU OpenMP as loaded by torch; None if torch uses another library."""
    try:
        library = ctypes.CDLL(None)
        return library if library.GOMP_parallel and library.omp_get_num_procs else None
    except (OSError, AttributeError, TypeError):  # TypeError: on Windows, CDLL needs the name of a library.
        return None
