"""What searches found for lines that are not written yet: a translation that is killed loses no finished batch."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nmt.search.hypotheses import Hypothesis
from nmt.search.settings import SearchSettings
from nmt.translation.segment import Segment

Stored = dict[str, list[Any]]
"""The hypotheses of each segment of a batch as JSON values, by what was searched."""


class FoundBatches:
    """The hypotheses of the batches that were searched since lines were last written.

    A resumed translation divides the same lines into the same batches, and searches only those that are not here.
    """

    def __init__(self) -> None:
        self.stored: Stored = {}
        self.models = 1
        """The number of models that search each segment, one after the other."""
        self.listeners: list[Callable[[], None]] = []
        """Called after each search, by one thread at a time."""
        self._adding = threading.Lock()

    @property
    def segments(self) -> int:
        """The number of segments that were searched; those that were searched again count twice."""
        return sum(map(len, self.stored.values())) // self.models

    def of(
        self,
        batch: Sequence[Segment],
        settings: SearchSettings,
        search: Callable[[], list[list[Hypothesis]] | None],
    ) -> list[list[Hypothesis]] | None:
        """The hypotheses of each segment of a batch: those that are here, or else those that a search finds."""
        sources = [(tuple(segment.pieces), tuple(segment.prefix), segment.number) for segment in batch]
        key = hashlib.sha256(repr((settings, sources)).encode()).hexdigest()
        if key in self.stored:
            return [list(map(_hypothesis, of_segment)) for of_segment in self.stored[key]]
        found = search()
        if found is not None:
            with self._adding:
                self.stored[key] = [list(map(_values, of_segment)) for of_segment in found]
                for listen in self.listeners:
                    listen()
        return found


def _values(hypothesis: Hypothesis) -> list[Any]:
    return [list(value) if isinstance(value, tuple) else value for value in vars(hypothesis).values()]


def _hypothesis(values: Iterable[Any]) -> Hypothesis:
    arguments: list[Any] = [tuple(value) if isinstance(value, list) else value for value in values]
    return Hypothesis(*arguments)
