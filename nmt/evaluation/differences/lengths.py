"""How the systems differ by the length of the reference, and how long their translations are beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.evaluation.differences.buckets import Bucket, bucket_of, buckets
from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text
from nmt.evaluation.metrics import score

LENGTHS = buckets(0, 1, 11, 21, 31, 41, 51, 61)
"""Tokens of the reference. Only lines with an empty reference are in the first bucket."""

RATIOS = ("< 0.8", "0.8–0.95", "0.95–1.05", "1.05–1.2", "> 1.2")
"""Tokens of the hypothesis per token of the reference; both ends of the middle range belong to it."""


@dataclass(frozen=True)
class LengthBucket:
    """The lines whose references have similar lengths."""

    bucket: Bucket
    lines: int
    bleu: tuple[float, float]
    """BLEU of systems A and B over these lines."""


@dataclass(frozen=True)
class LengthRatios:
    """The lines whose translations are short or long by a similar ratio."""

    ratio: str
    """One of :data:`RATIOS`."""
    lines: tuple[int, int]
    """The number of lines of systems A and B."""
    shares: tuple[float, float]
    """The same as shares of all lines, from 0 to 1."""


def bleu_by_length(texts: ParallelTexts) -> tuple[LengthBucket, ...]:
    """BLEU of both systems by the number of reference tokens; without the buckets that have no lines."""
    numbers: list[list[int]] = [[] for _ in LENGTHS]
    for number, tokens in enumerate(texts.reference.tokens):
        numbers[bucket_of(len(tokens), LENGTHS)].append(number)
    a, b = texts.systems
    return tuple(
        LengthBucket(bucket, len(chosen), (_bleu(texts, a, chosen), _bleu(texts, b, chosen)))
        for bucket, chosen in zip(LENGTHS, numbers, strict=True)
        if chosen
    )


def _bleu(texts: ParallelTexts, system: Text, numbers: Sequence[int]) -> float:
    hypotheses = [system.lines[number] for number in numbers]
    references = [texts.reference.lines[number] for number in numbers]
    found = score("bleu", hypotheses, [references], target_lang=texts.target_lang, tokenize=texts.tokenize)
    return found.value


def length_ratios(texts: ParallelTexts) -> tuple[LengthRatios, ...]:
    """How many lines of each system are short or long, beside the reference."""
    a, b = (_lines_by_ratio(system, texts.reference) for system in texts.systems)
    lines = len(texts.reference.lines)
    return tuple(
        LengthRatios(ratio, counts, (counts[0] / lines, counts[1] / lines))
        for ratio, counts in zip(RATIOS, zip(a, b, strict=True), strict=True)
    )


def _lines_by_ratio(system: Text, reference: Text) -> list[int]:
    counts = [0] * len(RATIOS)
    for hypothesis, expected in zip(system.tokens, reference.tokens, strict=True):
        counts[_ratio_index(len(hypothesis), len(expected))] += 1
    return counts


def _ratio_index(length: int, expected: int) -> int:
    """The index of a ratio in :data:`RATIOS`, by whole numbers, which are not rounded.

    An empty translation of an empty reference has the right length.
    """
    parts = 100 * length
    below = [parts < 80 * expected, parts < 95 * expected, parts <= 105 * expected, parts <= 120 * expected]
    return below.index(True) if any(below) else len(below)
