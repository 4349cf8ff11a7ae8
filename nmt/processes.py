"""How a process ended, in words."""

from __future__ import annotations

import signal


def how_it_ended(exit_code: int) -> str:
    """What follows a process's name in a message, such as ``was killed by SIGTERM``.

    Args:
        exit_code: as Python's ``subprocess`` and ``multiprocessing`` give it, negative after a signal.
    """
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:  # most real-time signals have no name
        name = f"signal {-exit_code}"
    memory = " (which is also what the system does when memory runs out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{memory}"
