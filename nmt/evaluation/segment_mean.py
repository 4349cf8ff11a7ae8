"""The mean of segment scores, with the interface that sacreBLEU's tests of significance ask of a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sacrebleu.metrics.base import Score

SegmentScores = Callable[[Sequence[str], Sequence[Sequence[str]]], list[float]]
"""Hypotheses and, for each reference translation, a list of lines -> one score per segment."""


class SegmentMean:
    """A metric for sacreBLEU. The statistics of a segment are its score and 1: their sums give the mean."""

    def __init__(self, name: str, signature: Mapping[str, Any], segment_scores: SegmentScores) -> None:
        """Take what computes the scores.

        Args:
            name: what the score is called.
            signature: how it is computed.
        """
        self.name = name
        self.segment_scores = segment_scores
        self._signature = signature

    def corpus_score(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Any:
        """The score of a whole text."""
        return self._aggregate_and_compute(self._extract_corpus_statistics(hypotheses, references))

    def get_signature(self) -> MeanSignature:
        """A new signature: a test of significance adds its own part."""
        return MeanSignature(self._signature)

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> list[list[float]]:
        return [[score, 1] for score in self.segment_scores(hypotheses, references)]

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Any:
        # A row may be the sum over several segments: the randomisation test sums before it aggregates.
        return self._compute_score_from_stats([sum(column) for column in zip(*stats, strict=True)])

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Any:
        total, count = stats
        return Score(self.name, float(total) / float(count))


class MeanSignature:
    """A signature that sacreBLEU can add to."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take the values, in the order in which they are shown."""
        self._values = dict(values)

    def update(self, key: str, value: Any) -> None:
        """Add a value."""
        self._values[key] = value

    def format(self) -> str:
        """The signature in sacreBLEU's form."""
        return "|".join(f"{key}:{value}" for key, value in self._values.items())
