"""What the readers of files with both sides take and give."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nmt.text import InvalidUtf8

Pair = tuple[str, str]
"""Source and target."""


class ReadPair(NamedTuple):
    """A pair as it was read."""

    source: str
    target: str
    score: float | None = None


@dataclass(frozen=True)
class PairFile:
    """A file that holds both sides of a corpus."""

    path: Path
    """Where it is read from."""
    name: str
    """What errors call it: its path, or ``standard input``."""
    source_lang: str
    target_lang: str
    invalid: InvalidUtf8 = "error"
    columns: tuple[str, ...] | None = None
    """What the columns hold, in order; the source and the target if unset."""
    header: bool = False
    """Whether the first line holds the names of the columns."""
    scored: bool = False
    """Whether scores are read. A file that can have scores must then have them."""
