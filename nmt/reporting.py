"""What a long job says while it runs: notices, warnings and progress."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from nmt.errors import NmtWarning

Unit = Literal["bytes", "pairs", "lines", "paragraphs", "texts"]
Update = Callable[[str, int, int | None], None]
"""Says how far a task is: its description, what is done, and the total if it is known."""


_OURS = ("nmt", "pydantic", "contextlib")
"""Packages whose code stands between a user's line and a warning."""


def warn(message: str) -> None:
    """Warn of something by a :class:`nmt.NmtWarning` at the line of the user's program that led to it."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, NmtWarning, stacklevel=level)


class Reporter:
    """Hears what a job says. This one is silent, but for warnings of Python; override what you want to hear."""

    names_flags = False
    """Whether messages call options as the command line does, in place of the arguments of Python."""

    def notice(self, message: str) -> None:
        """Something that a user may want to know: a choice that was made, a file that was written."""

    def warn(self, message: str) -> None:
        """Something that may be wrong. By default it is a :class:`nmt.NmtWarning`."""
        warn(message)

    def progress(self) -> AbstractContextManager[Callable[[Unit], Update]]:
        """Show progress while the body runs. Yields a function that takes a unit and returns a callback."""
        return nullcontext(lambda unit: lambda description, done, total: None)


SILENT = Reporter()
