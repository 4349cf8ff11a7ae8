"""How the systems differ by the length of the reference, and how long their translations are beside it."""

from __future__ import annotations

from collections import Counter

from nmt.evaluation.differences.parallel_texts import ParallelTexts
from nmt.evaluation.differences.tables import Comparison, bucket_of, buckets
from nmt.evaluation.metrics import score

LENGTHS = buckets(0, 1, 11, 21, 31, 41, 51, 61)
"""Tokens of the reference. Only lines with an empty reference are in the first bucket."""

RATIOS = ("< 0.8", "0.8–0.95", "0.95–1.05", "1.05–1.2", "> 1.2")
"""Tokens of the hypothesis per token of the reference; both ends of the middle range belong to it."""


def bleu_by_length(texts: ParallelTexts) -> Comparison:
    """BLEU of both systems by the number of reference tokens; without the buckets that have no lines.

    Records: ``bucket``, ``lines``, ``bleu``.
    """
    table = Comparison("BLEU by length of the reference", ["tokens", "lines", "A", "B", "B - A"])
    indices = [bucket_of(len(tokens), LENGTHS) for tokens in texts.reference.tokens]
    for number, bucket in enumerate(LENGTHS):
        chosen = [line for line, index in enumerate(indices) if index == number]
        if not chosen:
            continue
        reference, *systems = ([text.lines[line] for line in chosen] for text in (texts.reference, *texts.systems))
        a, b = (score(texts.bleu, lines, [reference]).value for lines in systems)
        table.rows.append([bucket.label, f"{len(chosen):,}", f"{a:.2f}", f"{b:.2f}", f"{b - a:+z.2f}"])
        table.records.append({"bucket": bucket, "lines": len(chosen), "bleu": (a, b)})
        table.gains.append((b - a) / 100)
    return table


def length_ratios(texts: ParallelTexts) -> Comparison:
    """How many lines of each system are short or long, beside the reference.

    Records: ``ratio`` (one of :data:`RATIOS`), ``lines``, ``shares`` of all lines from 0 to 1.
    """
    title = "Length of the translation beside the reference"
    table = Comparison(title, ["ratio", "A", "B", "lines of A", "lines of B"], shares={1: [], 2: []})
    expected = texts.reference.tokens
    counts = [Counter(map(_ratio, system.tokens, expected)) for system in texts.systems]
    for ratio in RATIOS:
        lines = [of_system[ratio] for of_system in counts]
        shares = [count / len(expected) for count in lines]
        table.rows.append([ratio, *(f"{share:.1%}" for share in shares), *(f"{count:,}" for count in lines)])
        table.records.append({"ratio": ratio, "lines": lines, "shares": shares})
        for column, share in enumerate(shares, start=1):
            table.shares[column].append(share)
    return table


def _ratio(hypothesis: tuple[str, ...], reference: tuple[str, ...]) -> str:
    """A ratio of lengths as one of :data:`RATIOS`, by whole numbers, which are not rounded.

    An empty translation of an empty reference has the right length.
    """
    parts, expected = 100 * len(hypothesis), len(reference)
    below = [parts < 80 * expected, parts < 95 * expected, parts <= 105 * expected, parts <= 120 * expected, True]
    return RATIOS[below.index(True)]
