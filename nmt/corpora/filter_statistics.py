"""The pairs that the filters found, by corpus: how many, and the first few as samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nmt.corpora.formats import Pair
from nmt.data.manifest import FilterRecord

SAMPLES = 3
"""Samples per filter and corpus."""
_SAMPLE_LENGTH = 200
"""Characters of a sample's side."""


class FilterStatistics:
    """Counts and samples of the pairs that each filter dropped or only counted."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Begin without statistics.

        Args:
            names: of the counts of the filters that are on. Totals have their order, and 0 where nothing is found.
        """
        self._names = list(names)
        self._counts: dict[tuple[int, str], int] = {}
        self._samples: dict[tuple[int, str], list[Pair]] = {}

    def add(self, corpus: int, name: str, count: int, samples: Sequence[Pair]) -> None:
        """Count pairs that a filter found.

        Args:
            corpus: the number of the corpus.
            name: of the filter.
            count: how many pairs.
            samples: the first of them, as read.
        """
        if not count:
            return
        self._counts[corpus, name] = self._counts.get((corpus, name), 0) + count
        kept = self._samples.setdefault((corpus, name), [])
        kept.extend((_cut(source), _cut(target)) for source, target in samples[: SAMPLES - len(kept)])

    def add_all(self, others: FilterStatistics) -> None:
        """Count what others have counted."""
        for (corpus, name), count in others._counts.items():
            self.add(corpus, name, count, others._samples[corpus, name])

    def totals(self) -> dict[str, int]:
        """The number of pairs by filter, in the order of the filters."""
        totals = dict.fromkeys(self._names, 0)
        for (_, name), count in self._counts.items():
            totals[name] += count
        return totals

    def of_corpus(self, corpus: int) -> dict[str, FilterRecord]:
        """What the filters found in a corpus, in the order of the filters; without those that found nothing."""
        return {
            name: FilterRecord(pairs=self._counts[corpus, name], samples=self._samples[corpus, name])
            for name in self._names
            if (corpus, name) in self._counts
        }


def _cut(line: str) -> str:
    return line if len(line) <= _SAMPLE_LENGTH else f"{line[: _SAMPLE_LENGTH - 1]}…"
