"""What a command prints when nobody can read it any more: a lost ssh, a closed terminal, a pipe without a reader."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

# The terminal is gone; the reader of a pipe is.
_NOBODY_READS = (errno.EIO, errno.EPIPE)


class _LastingStream:
    """A stream whose writes raise nothing: after one that failed, the rest goes nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _give_up(self, error: OSError) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)
        if error.errno in _NOBODY_READS and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            os.kill(os.getpid(), signal.SIGHUP)


@contextmanager
def hanging_up_when_unread() -> Iterator[None]:
    """While the body runs, a write to stderr never raises. The first one that nobody can read acts as a lost terminal
    does: as SIGHUP, unless that is ignored (nohup).

    SIGHUP comes from the terminal, and again from that write, which may be after the body has taken its own handler
    away. It then ends the command with 129 rather than the process at once, so that what is open is closed.
    """
    before = sys.stderr
    sys.stderr = _LastingStream(before)
    ends_at_once = signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    if ends_at_once:
        signal.signal(signal.SIGHUP, _end)
    try:
        yield
    finally:
        sys.stderr = before
        if ends_at_once:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
