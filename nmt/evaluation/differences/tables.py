"""Tables that compare two systems, and the ranges of numbers that rows are grouped by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nmt.table import Table


@dataclass
class Comparison(Table):
    """A table about systems A and B, with its figures as numbers for programs and for drawing."""

    records: list[dict[str, Any]] = field(default_factory=list)
    """Numbers by their names; pairs are of A and B."""
    gains: list[float] = field(default_factory=list)
    """For each row, by how much B is better, from -1 to 1; negative if A is better. Empty if this has no meaning."""
    shares: dict[int, list[float]] = field(default_factory=dict)
    """Columns, from 0, with shares from 0 to 1 that can be drawn."""


@dataclass(frozen=True)
class Bucket:
    """The numbers from ``low`` to ``high``, both included."""

    low: int
    high: int | None
    """None if there is no maximum."""

    @property
    def label(self) -> str:
        """The range as people write it: ``0``, ``1–10``, ``61+``."""
        if self.high is None:
            return f"{self.low:,}+"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


def buckets(*lows: int) -> tuple[Bucket, ...]:
    """Adjacent ranges that begin at the given numbers; the last has no maximum."""
    highs = [low - 1 for low in lows[1:]]
    return tuple(Bucket(low, high) for low, high in zip(lows, [*highs, None], strict=True))


def bucket_of(number: int, among: tuple[Bucket, ...]) -> int:
    """The index of the range that holds a number, which is not below the first range."""
    return max(index for index, bucket in enumerate(among) if bucket.low <= number)
