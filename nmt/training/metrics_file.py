"""``metrics.jsonl``: one record per line. The console shows these records.

An ``update`` record averages over the updates since the previous one. A ``validation`` record holds the results on the
valid set. Records are in the order of their updates, even after crashes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from nmt.config.documents import DocumentError, parse_json
from nmt.io.files import replacing
from nmt.io.regular import open_regular
from nmt.io.writing import WriteError, append
from nmt.text.lines import read_lines
from nmt.training.loss import perplexity
from nmt.training.ranks.message import UpdateOutcome, UpdateResult

_MAX_UPDATE = 1 << 53
Count = Annotated[int, Field(ge=0, lt=_MAX_UPDATE)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MetricsFile:
    """Appends records. Each is handed to the operating system at once, so a killed process loses none; unless the disk
    is full: then they wait in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten = b""

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, with those that wait, completely or not at all.

        Raises:
            WriteError: the record could not be written, but not for lack of room.
        """
        self._unwritten += _line(record).encode()
        try:
            self.flush()
        except WriteError as error:
            if not error.lacks_room:
                raise

    def flush(self) -> None:
        """Write the records that wait.

        Raises:
            WriteError: they could not be written.
        """
        if self._unwritten:
            append(self._path, self._unwritten)
            self._unwritten = b""

    def begin(self, start: dict[str, Any]) -> int:
        """Append the record of a start, and drop the records of later updates, which will be repeated.

        The file is replaced atomically: a crash or a full disk leaves the old file, or none.

        Returns:
            The number of damaged lines, which are dropped as well: a crash may cut the last one short.
        """
        records, damaged = self.read()
        kept = [record for record in records if record["update"] <= start["update"]]
        with replacing(self._path) as stream:
            stream.writelines(_line(record).encode() for record in [*kept, start])
        return damaged

    def read(self) -> tuple[list[dict[str, Any]], int]:
        """All valid records, and the number of damaged lines."""
        if not self._path.exists():
            return [], 0
        records, damaged = [], 0
        for line in read_lines(self._path, invalid="replace", opener=open_regular):
            try:
                record = parse_json(line)
            except DocumentError:
                record = None
            update = record.get("update") if isinstance(record, dict) else None
            if isinstance(update, int) and 0 <= update < _MAX_UPDATE:
                records.append(record)
            else:
                damaged += 1
        return records, damaged


def _line(record: dict[str, Any]) -> str:
    return json.dumps(_finite(record), allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Replace infinity and NaN by None, because JSON cannot express them."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value


@dataclass
class Meter:
    """The sums of an ``update`` record, over the updates since the one before."""

    target_tokens: Count = 0
    source_tokens: Count = 0
    skipped: Count = 0
    made: Count = 0
    """The updates that were not skipped; the next four are sums over them."""
    tokens_made: Count = 0
    cross_entropy: float = 0.0
    smoothed_loss: float = 0.0
    gradient_norm: float = 0.0
    seconds: NonNegative = 0.0
    """The duration of all updates, waiting included."""
    waited: NonNegative = 0.0
    """Seconds spent waiting for batches."""
    memory: Count = 0
    """The maximum of bytes in use."""
    rates: list[tuple[NonNegative, Count]] = field(default_factory=list)
    """For each rank the sum of its tokens per second, and the updates in which it had a pair and that was measured."""

    def add(self, result: UpdateResult, seconds: float, waited: float, memory: int) -> None:
        """Count one update.

        Args:
            seconds: the duration of the update, waiting included.
            waited: seconds spent waiting for batches.
            memory: bytes in use.
        """
        self.target_tokens += result.target_tokens
        self.source_tokens += result.source_tokens
        self.seconds += seconds
        self.waited += waited
        self.memory = max(self.memory, memory)
        if result.outcome is UpdateOutcome.DONE:
            self.made += 1
            self.tokens_made += result.target_tokens
            self.cross_entropy += result.cross_entropy * result.target_tokens
            self.smoothed_loss += result.smoothed_loss * result.target_tokens
            self.gradient_norm += result.gradient_norm
        else:
            self.skipped += 1
        rates = result.rank_tokens_per_second
        # Empty at first, and of other ranks where a run resumes with more or fewer.
        sums = self.rates if len(self.rates) == len(rates) else [(0.0, 0)] * len(rates)
        self.rates = [(total + rate, count + (rate > 0)) for (total, count), rate in zip(sums, rates, strict=True)]

    def record(self, update: int, *, epoch: int, learning_rate: float, seconds: float) -> dict[str, Any]:
        """The record of the updates since the last one. Losses and norm leave skipped updates out.

        Args:
            seconds: the duration of the whole run.
        """
        loss = self.cross_entropy / self.tokens_made if self.made else None
        record: dict[str, Any] = {
            "kind": "update",
            "update": update,
            "epoch": epoch,
            "loss": loss,
            "smoothed_loss": self.smoothed_loss / self.tokens_made if self.made else None,
            "perplexity": None if loss is None else perplexity(loss),
            "gradient_norm": self.gradient_norm / self.made if self.made else None,
            "learning_rate": learning_rate,
            "target_tokens": self.target_tokens,
            "target_tokens_per_second": self.target_tokens / self.seconds,
            "source_tokens_per_second": self.source_tokens / self.seconds,
            "data_wait_share": self.waited / self.seconds,
            "peak_memory_bytes": self.memory,
            "skipped_updates": self.skipped,
            "seconds": seconds,
        }
        if len(self.rates) > 1:
            record["rank_target_tokens_per_second"] = [total / max(1, count) for total, count in self.rates]
        return record
