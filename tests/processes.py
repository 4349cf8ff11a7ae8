"""Processes of which a test reads, and which must not keep it waiting for ever."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 300.0
"""Many times what any of them takes on a busy machine."""


@contextmanager
def running(
    command: Sequence[str | Path], *, seconds: float = SECONDS, **options: Any
) -> Iterator[subprocess.Popen[Any]]:
    """A process, as from Popen, that is killed when it takes too long: whoever reads its pipes comes to their end."""
    process = subprocess.Popen(command, **options)
    timer = kill_after(process, seconds)
    try:
        with process:
            yield process
    finally:
        timer.cancel()


def kill_after(process: Any, seconds: float = SECONDS) -> threading.Timer:
    """Kill a process, as from Popen, when it takes too long; returns the running timer."""
    timer = threading.Timer(seconds, process.send_signal, [signal.SIGKILL])
    timer.daemon = True
    timer.start()
    return timer
