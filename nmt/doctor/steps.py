"""The steps of an examination: a step that fails is a finding, and none begins when the time is up."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nmt.errors import NmtError

Report = Callable[[str], None]
Found = TypeVar("Found")


class Steps:
    """Does one step after another, as long as there is time."""

    def __init__(self, seconds: float, report: Report) -> None:
        """Start the clock.

        Args:
            seconds: the time in which steps begin.
            report: called with a line before each step.
        """
        self._begin, self._end = time.monotonic(), time.monotonic() + seconds
        self._report = report
        self.left_out: list[str] = []
        """What failed or was not begun, and why."""

    @property
    def seconds(self) -> float:
        """The time that has passed."""
        return time.monotonic() - self._begin

    def do(
        self,
        subject: str,
        step: Callable[[], Found],
        otherwise: Found,
        failed: Callable[[str], Found] | None = None,
    ) -> Found:
        """Do a step.

        Args:
            otherwise: the result of a step that fails, or that is not begun; the reason is noted.
            failed: makes the result of a step that fails from the reason, which is then not noted.
        """
        self._report(subject)
        if time.monotonic() > self._end:
            self.left_out.append(f"{subject}: no time was left")
            return otherwise
        try:
            return step()
        except Exception as error:
            reason = impersonal(str(error) if isinstance(error, NmtError) else f"{type(error).__name__}: {error}")
            if failed is not None:
                return failed(reason)
            self.left_out.append(f"{subject}: {reason}")
        return otherwise


def impersonal(text: str) -> str:
    """A message without the paths that hold the user's name: the doctor's output is for bug reports."""
    names = {sys.executable: "python", tempfile.gettempdir(): "TMPDIR", str(Path.home()): "~"}
    for path, name in names.items():
        if len(path) > 1:
            text = text.replace(path, name)
    return text
