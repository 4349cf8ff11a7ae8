"""Scores of both systems over the whole text, and whether they differ significantly."""

from __future__ import annotations

from dataclasses import dataclass

from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text
from nmt.evaluation.metrics import make_metric
from nmt.evaluation.significance import evaluate


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
    metrics = [make_metric(name, texts.target_lang, tokenize=texts.tokenize) for name in ("bleu", "chrf")]
    systems = dict(zip("AB", (system.lines for system in texts.systems), strict=True))
    scores = evaluate(systems, [texts.reference.lines], metrics)
    return tuple(
        MetricTotal(
            a.name,
            a.signature,
            (a.value, b.value),
            (a.interval, b.interval),
            1.0 if b.p_bootstrap is None else b.p_bootstrap,
        )
        for a, b in zip(*scores.values(), strict=True)
    )


def _size(text: Text) -> int:
    return sum(map(len, text.tokens))
