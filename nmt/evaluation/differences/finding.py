"""All differences between two systems, in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nmt.evaluation.differences.changed_sentences import SAMPLES, ChangedSentences, changed_sentences
from nmt.evaluation.differences.copying import copying
from nmt.evaluation.differences.lengths import bleu_by_length, length_ratios
from nmt.evaluation.differences.ngrams import ngram_gains
from nmt.evaluation.differences.parallel_texts import ParallelTexts
from nmt.evaluation.differences.tables import Comparison
from nmt.evaluation.differences.word_frequency import reference_frequencies, words_by_frequency
from nmt.evaluation.metrics import make_metric
from nmt.evaluation.significance import evaluate


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
    metrics: Comparison
    """A record per metric: ``name``, ``signature``, ``values``, ``intervals`` (halves of the 95 % confidence intervals)
    and ``p_value`` of the difference, by paired bootstrap resampling. The rows also have the lengths."""


@dataclass(frozen=True)
class Differences:
    """The differences between systems A and B."""

    totals: Totals
    by_length: Comparison
    by_frequency: Comparison
    copying: Comparison
    length_ratios: Comparison
    ngrams: dict[str, Comparison]
    """For ``a`` and ``b``."""
    sentences: ChangedSentences


def find_differences(
    texts: ParallelTexts,
    frequencies: Mapping[str, int] | None = None,
    *,
    counted_in: str = "the references",
    samples: int = SAMPLES,
) -> Differences:
    """Compute all differences.

    Args:
        frequencies: how often words occur in the training data; by default, how often in the references.
        counted_in: what the frequencies were counted in.
        samples: the maximum number of sentences shown per system.
    """
    counts = reference_frequencies(texts) if frequencies is None else frequencies
    return Differences(
        totals=totals(texts),
        by_length=bleu_by_length(texts),
        by_frequency=words_by_frequency(texts, counts, counted_in=counted_in),
        copying=copying(texts),
        length_ratios=length_ratios(texts),
        ngrams=ngram_gains(texts),
        sentences=changed_sentences(texts, samples),
    )


def totals(texts: ParallelTexts) -> Totals:
    """BLEU and chrF by sacreBLEU, and the sizes of the texts."""
    a, b = texts.systems
    scores = evaluate({"A": a.lines, "B": b.lines}, [texts.reference.lines], [texts.bleu, make_metric("chrf")])
    table = Comparison("Totals", ["", "A", "B", "B - A", "p"])
    for of_a, of_b in zip(*scores.values(), strict=True):
        table.records.append(
            {
                "name": of_a.name,
                "signature": of_a.signature,
                "values": (of_a.value, of_b.value),
                "intervals": (of_a.interval, of_b.interval),
                "p_value": of_b.p_bootstrap,
            }
        )
        values = (f"{score.value:.2f} ± {score.interval:.2f}" for score in (of_a, of_b))
        table.rows.append([of_a.name, *values, f"{of_b.value - of_a.value:+z.2f}", f"{of_b.p_bootstrap:.4f}"])
    table.note = "\n".join(record["signature"] for record in table.records)
    length, tokens_a, tokens_b = (sum(map(len, text.tokens)) for text in (texts.reference, a, b))
    ratio_a, ratio_b = (tokens / length if length else 0.0 for tokens in (tokens_a, tokens_b))
    table.rows.append(["length ratio", f"{ratio_a:.3f}", f"{ratio_b:.3f}", f"{ratio_b - ratio_a:+z.3f}", ""])
    table.rows.append(["tokens", f"{tokens_a:,}", f"{tokens_b:,}", f"{tokens_b - tokens_a:+,}", ""])
    return Totals(
        lines=len(a.lines),
        differing_lines=sum(first != second for first, second in zip(a.lines, b.lines, strict=True)),
        reference_tokens=length,
        tokens=(tokens_a, tokens_b),
        length_ratios=(ratio_a, ratio_b),
        metrics=table,
    )
