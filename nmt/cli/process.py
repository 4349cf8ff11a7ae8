"""How the process of a command begins and ends, whatever its caller has done to its streams and the user to it."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
import warnings
from typing import NoReturn, TextIO

from nmt.cli.console import STANDARD_OUTPUT, print_error, warn
from nmt.errors import NmtWarning

# After Ctrl-C; whoever interrupts once more after that ends the process at once.
_SECONDS_TO_CLEAN_UP = 2.0


def open_closed_streams() -> None:
    """Let what a caller has closed (``nmt … <&- >&-``) be as empty, and as deaf, as it can be without an error.

    Whoever needs one of them can ask for ``sys.__stdin__`` and the like, which stay None. Left closed, their numbers
    would go to the next files that are opened.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def clean_up_patiently() -> None:
    """Let further interruptions wait while what was under way cleans up, but not for longer than a user would."""
    patience = time.monotonic() + _SECONDS_TO_CLEAN_UP
    signal.signal(signal.SIGINT, lambda *_: os._exit(130) if time.monotonic() > patience else None)


def end_interrupted() -> NoReturn:
    """End with the exit code of Ctrl-C, when all that was under way has cleaned up after itself.

    The interpreter's own end is left out: it waits for threads, and where that is interrupted once more, it takes
    itself apart beneath those that still compute, which aborts the process.
    """
    gc.collect()  # generators that were left clean up when they go
    if processes := sys.modules.get("multiprocessing.util"):
        processes._run_finalizers(0)  # else its watcher would complain of semaphores that nobody gave back
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(130)


def tell_of_full_output() -> None:
    """What was still to be written (help, above all) is lost where standard output takes no more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
    except OSError as error:
        print_error(f"{STANDARD_OUTPUT}: {error.strerror}.")
        forget_output()
        sys.exit(2)


def forget_output() -> None:
    """Let the interpreter's own flush at its end not complain of what has been told already."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_own_warnings() -> None:
    """Print the warnings of this program as all others of its messages, without the line of code they come from."""
    show = warnings.showwarning

    def show_or_print(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, NmtWarning):
            warn(str(message))
        else:
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = show_or_print
