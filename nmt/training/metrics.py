"""``metrics.jsonl``: one record a line; the console is a view of it.

An ``update`` record averages over the updates since the record before. A ``validation`` record holds what the valid
set gave. Records of a run are in the order of their updates, whatever crashes came between.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from nmt.text import read_lines, replacing
from nmt.training.step import UpdateResult, perplexity


class Listener(Protocol):
    """Whoever wants to see a run go on."""

    def started(self, update: int, max_updates: int | None, max_minutes: float | None) -> None:
        """The loop begins, after so many updates."""

    def progressed(self, update: int, seconds: float) -> None:
        """An update is done."""

    def recorded(self, record: dict[str, Any]) -> None:
        """A record went into ``metrics.jsonl``."""

    def noticed(self, message: str) -> None:
        """Something that a person should know."""


class MetricsFile:
    """Appends records, each on disk when the call returns."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: dict[str, Any]) -> None:
        """Write one record."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")

    def cut_back(self, update: int) -> None:
        """Forget the records after an update, which will be made again."""
        if not self._path.exists():
            return
        kept = [record for record in self.records() if record["update"] <= update]
        with replacing(self._path) as stream:
            for record in kept:
                stream.write(json.dumps(record).encode() + b"\n")

    def records(self) -> list[dict[str, Any]]:
        """All records; the last line is left out where a crash cut it short."""
        if not self._path.exists():
            return []
        records = []
        for line in read_lines(self._path, invalid="replace"):
            try:
                records.append(json.loads(line))
            except ValueError:
                break
        return records


class Meter:
    """Gathers what happened between two update records."""

    def __init__(self) -> None:
        self._results: list[UpdateResult] = []
        self._seconds = 0.0

    def add(self, result: UpdateResult, seconds: float) -> None:
        """Count one update, which took so long, waiting for its data included."""
        self._results.append(result)
        self._seconds += seconds

    def record(self, update: int, *, epoch: int, learning_rate: float, seconds: float) -> dict[str, Any]:
        """The record of the updates since the last one.

        Args:
            seconds: of the whole run.
        """
        tokens = sum(result.target_tokens for result in self._results)
        source_tokens = sum(result.source_tokens for result in self._results)
        cross_entropy = sum(result.cross_entropy * result.target_tokens for result in self._results) / tokens
        smoothed = sum(result.smoothed_loss * result.target_tokens for result in self._results) / tokens
        record = {
            "kind": "update",
            "update": update,
            "epoch": epoch,
            "loss": cross_entropy,
            "smoothed_loss": smoothed,
            "perplexity": perplexity(cross_entropy),
            "learning_rate": learning_rate,
            "target_tokens": tokens,
            "target_tokens_per_second": tokens / self._seconds,
            "source_tokens_per_second": source_tokens / self._seconds,
            "seconds": seconds,
        }
        self._results, self._seconds = [], 0.0
        return record
