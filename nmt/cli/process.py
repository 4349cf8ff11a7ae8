"""How the process of a command begins and ends: closed streams, Ctrl-C, a full disk, a lost terminal."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TextIO

from nmt.cli.console import print_error, warn
from nmt.errors import NmtWarning
from nmt.io.streams import STANDARD_OUTPUT

_SECONDS_TO_CLEAN_UP = 2.0
"""After Ctrl-C or SIGTERM. A further one after this time ends the process at once."""
_NOBODY_READS = (errno.EIO, errno.EPIPE)
"""The terminal was closed; the reader of a pipe ended."""


def open_closed_streams() -> None:
    """Replace the streams that the caller closed (``nmt … <&- >&-``) by the null device.

    Otherwise the next files that are opened would get their numbers. ``sys.__stdin__`` and the like stay None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def interrupt_once() -> None:
    """Raise KeyboardInterrupt at the first Ctrl-C or SIGTERM, and ignore further ones for a short time: the command
    cleans up. The exception's argument is the number of the signal.

    A caller's setting is kept: the shell ignores Ctrl-C for a command in the background.
    """
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    handled = [number for number, default in defaults.items() if signal.getsignal(number) is default]

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        deadline = time.monotonic() + _SECONDS_TO_CLEAN_UP
        for each in handled:
            signal.signal(each, lambda again, _: os._exit(128 + again) if time.monotonic() > deadline else None)
        raise KeyboardInterrupt(number)

    for number in handled:
        signal.signal(number, interrupt)


def end_interrupted(number: int = signal.SIGINT) -> NoReturn:
    """End the process with the exit code of a signal, after generators and semaphores are closed.

    The interpreter's own shutdown is skipped. It waits for threads, and if it is interrupted again, it frees what other
    threads still compute with, which aborts the process.
    """
    gc.collect()  # Generators clean up when they are freed.
    if processes := sys.modules.get("multiprocessing.util"):
        processes._run_finalizers(0)  # Otherwise its resource tracker complains of leaked semaphores.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(128 + number)


def flush_stdout() -> None:
    """Write what is left of standard output, such as a help text. If it cannot be written, say so and exit with 2."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
    except OSError as error:
        print_error(f"{STANDARD_OUTPUT}: {error.strerror}.")
        discard_stdout()
        sys.exit(2)


def discard_stdout() -> None:
    """Discard output that cannot be written, so that the interpreter does not report it again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        _send_to_null(sys.stdout)


def _send_to_null(stream: TextIO) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def print_own_warnings() -> None:
    """Print the warnings of this program like its other messages, without the line of code that they come from."""
    show = warnings.showwarning

    def show_or_print(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, NmtWarning):
            warn(str(message))
        else:
            show(message, category, *place, **options)

    warnings.showwarning = show_or_print


class _LastingStream:
    """A stream whose writes never raise. After one that failed, the rest is discarded."""

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
        _send_to_null(self._stream)
        if error.errno in _NOBODY_READS and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            os.kill(os.getpid(), signal.SIGHUP)


@contextmanager
def hanging_up_when_unread() -> Iterator[None]:
    """While the body runs, a write to stderr never raises. If nobody can read it, it acts as a lost terminal does: it
    sends SIGHUP, unless that is ignored (nohup).

    A lost terminal sends SIGHUP too, so a second one may arrive after the body has removed its own handler. That one
    ends the command with 129 and not the process at once, so that open files are closed.
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
