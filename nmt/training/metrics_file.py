"""``metrics.jsonl``: one record per line. The console shows these records.

An ``update`` record averages over the updates since the previous one. A ``validation`` record holds the results on the
valid set. Records are in the order of their updates, even after crashes.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from nmt.io.files import replacing
from nmt.io.writing import append
from nmt.text.lines import read_lines
from nmt.training.loss import perplexity
from nmt.training.ranks.message import UpdateOutcome, UpdateResult


class MetricsFile:
    """Appends records. Each is handed to the operating system at once, so a killed process loses none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: dict[str, Any]) -> None:
        """Write one record completely or not at all.

        Raises:
            WriteError: the record could not be written.
        """
        append(self._path, _line(record).encode())

    def begin(self, start: dict[str, Any]) -> list[int]:
        """Append the record of a start, and drop the records of later updates, which will be repeated.

        The file is replaced atomically: a crash or a full disk leaves the old file, or none.

        Returns:
            The numbers of damaged lines, which are dropped as well.
        """
        records, damaged = self.read()
        kept = [record for record in records if record["update"] <= start["update"]]
        with replacing(self._path) as stream:
            stream.writelines(_line(record).encode() for record in [*kept, start])
        return damaged

    def records(self) -> list[dict[str, Any]]:
        """All valid records."""
        return self.read()[0]

    def read(self) -> tuple[list[dict[str, Any]], list[int]]:
        """All valid records, and the numbers of the damaged lines.

        A last line that a crash cut short counts as neither: its update will be repeated.
        """
        if not self._path.exists():
            return [], []
        records, damaged, line_number = [], [], 0
        for line_number, line in enumerate(read_lines(self._path, invalid="replace"), start=1):
            try:
                record = json.loads(line, parse_int=_integer)
            except (ValueError, RecursionError):
                record = None
            if isinstance(record, dict) and isinstance(record.get("update"), int):
                records.append(record)
            else:
                damaged.append(line_number)
        if damaged[-1:] == [line_number] and not _ends_its_last_line(self._path):
            damaged.pop()
        return records, damaged


def _integer(digits: str) -> int | float:
    """An integer; or infinity if it exceeds the range of a float, like 1e400. No valid figure is so large."""
    return int(digits) if len(digits) < sys.float_info.max_10_exp else float(digits)


def _line(record: dict[str, Any]) -> str:
    return json.dumps(_finite(record), allow_nan=False) + "\n"


def _ends_its_last_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"


def _finite(value: Any) -> Any:
    """Replace infinity and NaN by None, because JSON cannot express them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


class Meter:
    """Accumulates the results of the updates between two records."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._results: list[UpdateResult] = []
        self._seconds = self._waited = 0.0
        self._memory = 0

    @property
    def is_empty(self) -> bool:
        """Whether no update was counted since the last record."""
        return not self._results

    def add(self, result: UpdateResult, seconds: float, waited: float, memory: int) -> None:
        """Count one update.

        Args:
            seconds: the duration of the update, waiting included.
            waited: seconds spent waiting for batches.
            memory: bytes in use.
        """
        self._results.append(result)
        self._seconds += seconds
        self._waited += waited
        self._memory = max(self._memory, memory)

    def record(self, update: int, *, epoch: int, learning_rate: float, seconds: float) -> dict[str, Any]:
        """The record of the updates since the last one. Losses and norm leave skipped updates out.

        Args:
            seconds: the duration of the whole run.
        """
        tokens = sum(result.target_tokens for result in self._results)
        made = [result for result in self._results if result.outcome is UpdateOutcome.DONE]
        record: dict[str, Any] = {
            "kind": "update",
            "update": update,
            "epoch": epoch,
            "loss": None,
            "smoothed_loss": None,
            "perplexity": None,
            "gradient_norm": None,
            "learning_rate": learning_rate,
            "target_tokens": tokens,
            "target_tokens_per_second": tokens / self._seconds,
            "source_tokens_per_second": sum(result.source_tokens for result in self._results) / self._seconds,
            "data_wait_share": self._waited / self._seconds,
            "peak_memory_bytes": self._memory,
            "skipped_updates": len(self._results) - len(made),
            "seconds": seconds,
        }
        if made:
            tokens = sum(result.target_tokens for result in made)
            record["loss"] = sum(result.cross_entropy * result.target_tokens for result in made) / tokens
            record["smoothed_loss"] = sum(result.smoothed_loss * result.target_tokens for result in made) / tokens
            record["perplexity"] = perplexity(record["loss"])
            record["gradient_norm"] = sum(result.gradient_norm for result in made) / len(made)
        by_rank = list(zip(*(result.rank_tokens_per_second for result in self._results), strict=True))
        if len(by_rank) > 1:
            # 0: not measured yet, or no pair was left for this rank.
            measured = [[rate for rate in rates if rate] for rates in by_rank]
            record["rank_target_tokens_per_second"] = [sum(rates) / max(1, len(rates)) for rates in measured]
        self._clear()
        return record
