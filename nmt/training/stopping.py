"""Why a run ends: a signal, or a limit of the settings."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.config import Config
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.stop_signals import SECONDS_OF_ONE_SIGNAL, stop_signals


class StopRequest:
    """A signal's request that the run saves and ends."""

    def __init__(self) -> None:
        self.signal: int | None = None
        """The first signal received, if any."""

    def __bool__(self) -> bool:
        """Whether a signal was received."""
        return self.signal is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note a signal while the body runs, so that the update that is running can end.

        The next signal goes to the handler from before, which acts at once. This does not hold for SIGHUP: a lost
        terminal sends it again whenever something is written to it.
        """
        before = {number: signal.getsignal(number) for number in stop_signals()}
        came = 0.0

        def note(number: int, frame: FrameType | None) -> None:
            nonlocal came
            if self.signal is None:
                self.signal, came = number, time.monotonic()
            elif number != signal.SIGHUP and time.monotonic() - came > SECONDS_OF_ONE_SIGNAL:
                signal.signal(number, before[signal.Signals(number)])
                signal.raise_signal(number)

        for number in before:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Limits:
    """The limits of a run. The limit of minutes leaves time for the last validation."""

    def __init__(self, config: Config, progress: Progress) -> None:
        self._config = config
        self._progress = progress

    def reached(self) -> Ending | None:
        """The limit that the run has reached, if it has."""
        if (ending := self._progress.ending(self._config)) is not None:
            return ending
        limit = self._max_seconds()
        return Ending.MINUTES if limit is not None and self._progress.seconds >= limit else None

    def last_update(self) -> int | None:
        """The update that will reach the first limit, at the average speed so far; None without a limit or a speed.

        All ranks have the same answer: they share the seconds of the run.
        """
        progress, limit = self._progress, self._max_seconds()
        updates = self._config.training.max_updates
        if limit is None or progress.seconds == 0:
            return updates
        in_time = math.ceil(progress.update * limit / progress.seconds)
        return in_time if updates is None else min(updates, in_time)

    def _max_seconds(self) -> float | None:
        """When the updates must end, in seconds of the run."""
        minutes = self._config.training.max_minutes
        if minutes is None:
            return None
        seconds, validation = minutes * 60, self._progress.validation_seconds
        return seconds - validation if validation < seconds / 2 else seconds

    def spend_the_minutes(self) -> None:
        """Count the time that was left for a validation as used, so that the same command finds the run over."""
        self._progress.seconds = max(self._progress.seconds, 60 * (self._config.training.max_minutes or 0))
