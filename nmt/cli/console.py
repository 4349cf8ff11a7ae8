"""What the commands say to people: on stderr, so that stdout stays data alone."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

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
        stderr().print(message)


def warn(message: str) -> None:
    """Print something that may be wrong."""
    from rich.text import Text

    stderr().print(Text.assemble(("warning: ", "bold yellow"), message))


def is_terminal() -> bool:
    """Whether a person watches, so that a live display is of use."""
    return sys.stderr.isatty() and not _quiet
