"""Why a run ends: a signal, or a limit of the settings."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from nmt.config import Config
from nmt.training.progress import Ending, Progress
from nmt.training.ranks.stop_signals import stop_signals
from nmt.training.schedule import landing

# A terminal and a launcher may both send the same signal: within this time, a second one is ignored.
_SECONDS_OF_ONE_SIGNAL = 1.0


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
            elif number != signal.SIGHUP and time.monotonic() - came > _SECONDS_OF_ONE_SIGNAL:
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
        self.validation_seconds = 0.0
        """Duration of the last validation."""

    def reached(self) -> Ending | None:
        """The limit that the run has reached, if it has. Fixes the decay of a schedule that ends with the time."""
        progress, config = self._progress, self._config
        if (ending := progress.ending(config)) is not None:
            return ending
        if config.training.max_minutes is None:
            return None
        limit = config.training.max_minutes * 60
        if self.validation_seconds < limit / 2:
            limit -= self.validation_seconds
        if progress.seconds >= limit:
            return Ending.MINUTES
        schedule = config.schedule
        if schedule.decay == "wsd" and schedule.decay_updates is None and progress.decay_span is None:
            progress.decay_span = landing(progress.update, progress.seconds, schedule, limit)
        return None

    def spend_the_minutes(self) -> None:
        """Count the time that was left for a validation as used, so that the same command finds the run over."""
        self._progress.seconds = max(self._progress.seconds, 60 * (self._config.training.max_minutes or 0))
