"""What a command prints when nobody can read it any more: a lost ssh, a closed terminal, a pipe without a reader."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    does: as SIGHUP, unless that is ignored (nohup)."""
    before = sys.stderr
    sys.stderr = _LastingStream(before)
    try:
        yield
    finally:
        sys.stderr = before
