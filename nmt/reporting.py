"""What a long job says while it runs: notices, warnings and progress."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from nmt.errors import NmtWarning

Unit = Literal["bytes", "pairs", "lines", "paragraphs"]
Update = Callable[[str, int, int | None], None]
"""Says how far a task is: its description, what is done, and the total if it is known."""


class Reporter:
    """Hears what a job says. This one is silent, but for warnings of Python; override what you want to hear."""

    def notice(self, message: str) -> None:
        """Something that a user may want to know: a choice that was made, a file that was written."""

    def warn(self, message: str) -> None:
        """Something that may be wrong. By default it is a :class:`nmt.NmtWarning`."""
        warnings.warn(message, NmtWarning, stacklevel=3)

    def progress(self) -> AbstractContextManager[Callable[[Unit], Update]]:
        """Show progress while the body runs. Yields a function that takes a unit and returns a callback."""
        return nullcontext(lambda unit: lambda description, done, total: None)


SILENT = Reporter()
