"""Scores of both systems over the whole text, and whether they differ significantly."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.evaluation.comparison import compare
from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text


@dataclass(frozen=True)
class MetricTotal:
    """The scores of both systems by one metric."""

    name: str
    signature: str
    """sacreBLEU's signature, with the samples and the seed of the paired bootstrap."""
    values: tuple[float, float]
    intervals: tuple[float, float]
    """Halves of the 95 % confidence intervals."""
    p_value: float
    """The p-value of the difference, by paired bootstrap resampling."""


@dataclass(frozen=True)
class Totals:
    """Figures of the whole text. Pairs are of system A and system B."""

    lines: int
    differing_lines: int
    """Lines that the systems translate differently."""
    reference_tokens: int
    tokens: tuple[int, int]
    length_ratios: tuple[float, float]
    """Tokens of the hypotheses per token of the reference; 0 if the reference has none."""
    metrics: tuple[MetricTotal, ...]


def totals(texts: ParallelTexts) -> Totals:
    """BLEU and chrF by sacreBLEU, and the sizes of the texts."""
    a, b = texts.systems
    length = _size(texts.reference)
    sizes = _size(a), _size(b)
    return Totals(
        lines=len(a.lines),
        differing_lines=sum(first != second for first, second in zip(a.lines, b.lines, strict=True)),
        reference_tokens=length,
        tokens=sizes,
        length_ratios=(sizes[0] / length, sizes[1] / length) if length else (0.0, 0.0),
        metrics=_metrics(texts),
    )


def _metrics(texts: ParallelTexts) -> tuple[MetricTotal, ...]:
    a, b = texts.systems
    found = compare(
        {"A": a.lines, "B": b.lines},
        [texts.reference.lines],
        ["bleu", "chrf"],
        target_lang=texts.target_lang,
        tokenize=texts.tokenize,
    )
    made = []
    for comparison in found:
        first, second = comparison.systems
        made.append(
            MetricTotal(
                comparison.name,
                comparison.signature,
                (first.value, second.value),
                (first.interval, second.interval),
                1.0 if second.p_value is None else second.p_value,
            )
        )
    return tuple(made)


def _size(text: Text) -> int:
    return sum(map(len, text.tokens))
