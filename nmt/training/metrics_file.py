"""``metrics.jsonl``: one record a line; the console is a view of it.

An ``update`` record averages over the updates since the record before. A ``validation`` record holds what the valid
set gave. Records of a run are in the order of their updates, whatever crashes came between.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

from nmt.files import replacing
from nmt.text import read_lines
from nmt.training.loss import perplexity
from nmt.training.ranks.message import UpdateResult
from nmt.writing import append


class MetricsFile:
    """Appends records, each handed to the system when the call returns, so that a killed process loses none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, all or nothing.

        Raises:
            WriteError: the system refused.
        """
        append(self._path, _line(record).encode())

    def begin(self, start: dict[str, Any]) -> list[int]:
        """Append the record of a start, and forget the records after its update, which will be made again.

        The file is replaced as a whole: a crash or a full disk leaves it as it was, or absent.

        Returns:
            The numbers of damaged lines, which are forgotten, too.
        """
        records, damaged = self.read()
        kept = [record for record in records if record["update"] <= start["update"]]
        with replacing(self._path) as stream:
            stream.writelines(_line(record).encode() for record in [*kept, start])
        return damaged

    def records(self) -> list[dict[str, Any]]:
        """All records that can be read."""
        return self.read()[0]

    def read(self) -> tuple[list[dict[str, Any]], list[int]]:
        """All records that can be read, and the numbers of the lines that cannot.

        A last line that a crash cut short is neither: its record will be made again.
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
    """An integer, or infinity where it is out of a float's range, as JSON's 1e400 is: no figure of ours is so large."""
    return int(digits) if len(digits) < sys.float_info.max_10_exp else float(digits)


def _line(record: dict[str, Any]) -> str:
    return json.dumps(_finite(record), allow_nan=False) + "\n"


def _ends_its_last_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read() == b"\n"


def _finite(value: Any) -> Any:
    """JSON knows no infinity and no NaN: null stands for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


class Meter:
    """Gathers what happened between two update records."""

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
            seconds: it took so long, waiting included.
            waited: for its batches.
            memory: in use, in bytes.
        """
        self._results.append(result)
        self._seconds += seconds
        self._waited += waited
        self._memory = max(self._memory, memory)

    def record(self, update: int, *, epoch: int, learning_rate: float, seconds: float) -> dict[str, Any]:
        """The record of the updates since the last one; losses and norm without those that were skipped.

        Args:
            seconds: of the whole run.
        """
        tokens = sum(result.target_tokens for result in self._results)
        made = [result for result in self._results if not result.is_skipped]
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
            record["rank_target_tokens_per_second"] = [sum(rates) / len(rates) for rates in by_rank]
        self._clear()
        return record
