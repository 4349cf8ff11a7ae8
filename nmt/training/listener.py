"""The interface of those who watch a run: the command line, or the user's own program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.reporting import Reporter
    from nmt.training.start.summary import Summary
    from nmt.training.start.trial import Preflight


class Listener:
    """Receives the events of a run. What it does not override is ignored."""

    def settled(self, config: Config) -> None:
        """All settings are known."""

    def summarized(self, summary: Summary) -> None:
        """The figures of the run are known."""

    def measured(self, found: Preflight) -> None:
        """The preflight is done."""

    def started(self, update: int, max_updates: int | None, max_minutes: float | None) -> None:
        """The loop starts after ``update`` updates."""

    def progressed(self, update: int, seconds: float) -> None:
        """An update is done."""

    def recorded(self, record: dict[str, Any]) -> None:
        """A record was written to ``metrics.jsonl``."""

    def noticed(self, message: str) -> None:
        """There is a message for the user."""


class Reported(Listener):
    """A listener that passes notices and warnings on."""

    def __init__(self, report: Reporter) -> None:
        """Take who hears them."""
        self._report = report

    def measured(self, found: Preflight) -> None:
        """Pass on what the preflight warns of."""
        for warning in (found.disk_warning, found.within_warm_up, found.not_compiled):
            if warning is not None:
                self._report.warn(warning)

    def noticed(self, message: str) -> None:
        """Pass it on."""
        self._report.notice(message)
