"""How a process ended, by its exit code."""

from __future__ import annotations

import signal


def how_it_ended(exit_code: int) -> str:
    """The end of a process as a predicate for a message, such as ``was killed by SIGTERM``.

    Args:
        exit_code: as in Python's ``subprocess`` and ``multiprocessing``: negative after a signal.
    """
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:  # Most real-time signals have no name.
        name = f"signal {-exit_code}"
    memory = " (the system also does this when memory runs out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{memory}"
