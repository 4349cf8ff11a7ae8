"""The steps of an examination: each has a share of the time that is left, and a step that fails is a finding."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from nmt.errors import NmtError

Report = Callable[[str], None]
Found = TypeVar("Found")

_LEAST_SECONDS = 1.0


class _OutOfTime(BaseException):
    """The step has used up its share. It is no Exception, so that nothing within the step takes it for a failure."""


class Steps:
    """Does one step after another within a time."""

    def __init__(self, seconds: float, report: Report) -> None:
        """Start the clock.

        Args:
            seconds: the time for all steps.
            report: called with a line before each step.
        """
        self._begin, self._end = time.monotonic(), time.monotonic() + seconds
        self._report = report
        self.left_out: list[str] = []
        """What failed or did not fit into the time, and why."""

    @property
    def seconds(self) -> float:
        """The time that has passed."""
        return time.monotonic() - self._begin

    def do(
        self,
        subject: str,
        share: float,
        step: Callable[[], Found],
        otherwise: Found,
        failed: Callable[[str], Found] | None = None,
    ) -> Found:
        """Do a step.

        Args:
            share: the part of the time that is left which the step may take.
            otherwise: the result of a step that fails, or that is not finished in time; the reason is noted.
            failed: makes the result of a step that fails from the reason, which is then not noted.
        """
        left = self._end - time.monotonic()
        seconds = left * share
        self._report(f"{subject}  [at most {max(0.0, left):.0f} s left]")
        if seconds < _LEAST_SECONDS:
            self.left_out.append(f"{subject}: no time was left")
            return otherwise
        try:
            with _limited(seconds):
                return step()
        except _OutOfTime:
            self.left_out.append(f"{subject}: not finished within its share of the time, {seconds:.0f} s")
        except Exception as error:
            reason = impersonal(str(error) if isinstance(error, NmtError) else f"{type(error).__name__}: {error}")
            if failed is not None:
                return failed(reason)
            self.left_out.append(f"{subject}: {reason}")
        return otherwise


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End the body when its time is up. Only the main thread can be interrupted; another one is not limited."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def impersonal(text: str) -> str:
    """A message without the paths that hold the user's name: a page of the doctor is for bug reports."""
    names = {sys.executable: "python", tempfile.gettempdir(): "TMPDIR", str(Path.home()): "~"}
    for path, name in names.items():
        if len(path) > 1:
            text = text.replace(path, name)
    return text
