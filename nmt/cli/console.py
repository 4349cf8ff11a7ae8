"""All that the commands write: messages for people go to stderr, so that stdout stays data alone.

Messages and data quote file names, recipes and answers of servers. Nothing of them may steer the terminal, so all goes
through :func:`nmt.text.printable.printable` here, and no other module of the command line writes text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from nmt.text.printable import printable, writable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TextColumn

STANDARD_OUTPUT = "standard output"

_quiet = False


@cache
def stderr() -> Console:
    """The console that all commands share. Lines are never wrapped: a log must stay one line a message."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)


def be_quiet() -> None:
    """Print no notices and no progress from now on; warnings and errors stay."""
    global _quiet
    _quiet = True


def notice(message: str) -> None:
    """Print something in passing."""
    if not _quiet:
        stderr().print(printable(message))


def warn(message: str) -> None:
    """Print something that may be wrong."""
    from rich.text import Text

    stderr().print(Text.assemble(("warning: ", "bold yellow"), printable(message)))


def print_error(message: str) -> None:
    """Print what went wrong."""
    from rich.text import Text

    stderr().print(Text.assemble(("error: ", "bold red"), (printable(message), "red")))


@contextmanager
def naming_stream(name: str) -> Iterator[None]:
    """Let the system's errors about a stream say which it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        error.filename = error.filename or name
        raise


def write_stdout(text: str) -> None:
    """Write text to standard output: made harmless for a terminal, and without what its encoding cannot write."""
    with naming_stream(STANDARD_OUTPUT):
        shown = printable(text) if sys.stdout.isatty() else text
        sys.stdout.write(writable(shown, sys.stdout.encoding or "utf-8"))


def description_column() -> TextColumn:
    """The column of a progress bar that tells what it is about; names in it are text, not markup."""
    from rich.progress import TextColumn

    return TextColumn("{task.description}", markup=False)


def description(text: str) -> str:
    """What a progress bar is about, on one line."""
    return printable(text).replace("\n", " ")


def is_terminal() -> bool:
    """Whether a person watches, so that a live display is of use."""
    return sys.stderr.isatty() and not _quiet
