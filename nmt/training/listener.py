"""Whoever wants to see a run go on: the command line, or a program of one's own."""

from __future__ import annotations

from typing import Any, Protocol

from nmt.training.start.preflight import Preflight


class Listener(Protocol):
    """Whoever wants to see a run go on."""

    def measured(self, found: Preflight) -> None:
        """The preflight of the run is done."""

    def started(self, update: int, max_updates: int | None, max_minutes: float | None) -> None:
        """The loop begins, after so many updates."""

    def progressed(self, update: int, seconds: float) -> None:
        """An update is done."""

    def recorded(self, record: dict[str, Any]) -> None:
        """A record went into ``metrics.jsonl``."""

    def noticed(self, message: str) -> None:
        """Something that a person should know."""
