"""The differences between two systems as tables of text: the page and the terminal show the same figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.evaluation.differences import Differences, Kept, RightNgram

SIGNIFICANT = 0.05
"""Below this p-value, a difference is called significant."""


@dataclass(frozen=True)
class ComparedFiles:
    """The names of all that was compared."""

    systems: tuple[str, str]
    reference: str
    source: str | None
    data: str | None
    """The data set whose training text frequencies were counted in."""


@dataclass(frozen=True)
class Table:
    """A table of text; all columns but the first hold numbers."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""
    gains: list[float] = field(default_factory=list)
    """For each row, by how much B is better, from -1 to 1; negative if A is better. Empty if this has no meaning."""
    shares: dict[int, list[float]] = field(default_factory=dict)
    """Columns, from 0, with shares from 0 to 1 that can be drawn."""


def verdict(found: Differences) -> str:
    """The main result as a sentence."""
    if not found.totals.differing_lines:
        return "The translations are equal."
    metric = found.totals.metrics[0]
    gain = metric.values[1] - metric.values[0]
    size, p = f"{abs(gain):.2f} {metric.name}", f"p = {metric.p_value:.4f}"
    if metric.p_value >= SIGNIFICANT:
        return f"The difference of {size} is not significant ({p})."
    better, worse = ("B", "A") if gain > 0 else ("A", "B")
    return f"{better} is better than {worse} by {size} ({p})."


def tables(found: Differences, files: ComparedFiles) -> list[Table]:
    """The tables without n-grams and sentences; those without rows are left out."""
    every = [_by_length(found), _by_frequency(found, files), _copying(found), _length_ratios(found)]
    return [table for table in every if table.rows]


def totals_table(found: Differences) -> Table:
    """Scores with their confidence intervals, length ratios, and signatures."""
    totals = found.totals
    rows = [
        [
            metric.name,
            *(f"{value:.2f} ± {half:.2f}" for value, half in zip(metric.values, metric.intervals, strict=True)),
            signed(metric.values[1] - metric.values[0], 2),
            f"{metric.p_value:.4f}",
        ]
        for metric in totals.metrics
    ]
    a, b = totals.length_ratios
    rows.append(["length ratio", f"{a:.3f}", f"{b:.3f}", signed(b - a, 3), ""])
    rows.append(["tokens", *(f"{size:,}" for size in totals.tokens), f"{totals.tokens[1] - totals.tokens[0]:+,}", ""])
    return Table("Totals", ["", "A", "B", "B - A", "p"], rows, "\n".join(metric.signature for metric in totals.metrics))


def ngram_tables(found: Differences) -> list[Table]:
    """The n-grams that A, and those that B gets right more often; without a table that has no rows."""
    sides = {"A": found.ngrams.a, "B": found.ngrams.b}
    every = [
        Table(
            f"N-grams that {system} gets right more often",
            ["n-gram", "A", "B", "in references"],
            [_ngram(gram) for gram in grams],
        )
        for system, grams in sides.items()
    ]
    return [table for table in every if table.rows]


def signed(value: float, digits: int) -> str:
    """A number with its sign; never a negative zero."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def _by_length(found: Differences) -> Table:
    return Table(
        "BLEU by length of the reference",
        ["tokens", "lines", "A", "B", "B - A"],
        [
            [
                each.bucket.label,
                f"{each.lines:,}",
                *(f"{value:.2f}" for value in each.bleu),
                signed(each.bleu[1] - each.bleu[0], 2),
            ]
            for each in found.by_length
        ],
        gains=[(each.bleu[1] - each.bleu[0]) / 100 for each in found.by_length],
    )


def _by_frequency(found: Differences, files: ComparedFiles) -> Table:
    where = "the references" if files.data is None else f"the training data {files.data}"
    rows, gains = [], []
    for each in found.by_frequency:
        a, b = each.systems
        gains.append(b.f1 - a.f1)
        rows.append(
            [
                each.bucket.label,
                f"{each.reference_words:,}",
                *(f"{100 * score.f1:.1f}" for score in each.systems),
                signed(100 * (b.f1 - a.f1), 1),
                *(f"{100 * score.precision:.1f} / {100 * score.recall:.1f}" for score in each.systems),
            ]
        )
    header = ["frequency", "words", "A", "B", "B - A", "A precision / recall", "B precision / recall"]
    note = f"Frequency: how often a word occurs in {where}. A and B: F1 of the words, in percent."
    return Table("Words by frequency", header, rows, note, gains)


def _copying(found: Differences) -> Table:
    kept = [each for each in found.copying if any(each.totals)]
    return Table(
        "Numbers, names, copied words",
        ["", "A", "B", "lines where A has more", "lines where B has more"],
        [
            [
                each.name,
                *map(_share, each.counts, each.totals),
                *(", ".join(map(str, lines)) for lines in each.examples),
            ]
            for each in kept
        ],
        gains=[_gain(each) for each in kept],
    )


def _gain(kept: Kept) -> float:
    a, b = (count / total if total else 0.0 for count, total in zip(kept.counts, kept.totals, strict=True))
    return b - a if kept.is_good else a - b


def _share(count: int, total: int) -> str:
    return f"{count:,} of {total:,}" + (f" ({count / total:.1%})" if total else "")


def _length_ratios(found: Differences) -> Table:
    every = found.length_ratios
    return Table(
        "Length of the translation beside the reference",
        ["ratio", "A", "B", "lines of A", "lines of B"],
        [
            [each.ratio, *(f"{share:.1%}" for share in each.shares), *(f"{lines:,}" for lines in each.lines)]
            for each in every
        ],
        shares={column: [each.shares[column - 1] for each in every] for column in (1, 2)},
    )


def _ngram(gram: RightNgram) -> list[str]:
    return [" ".join(gram.tokens), *(f"{count:,}" for count in gram.right), f"{gram.in_references:,}"]


def figures(found: Differences) -> Sequence[tuple[str, tuple[str, str], str]]:
    """The main figures: a name, the values of A and B, and a remark."""
    made = [
        (
            metric.name,
            (f"{metric.values[0]:.2f}", f"{metric.values[1]:.2f}"),
            f"{signed(metric.values[1] - metric.values[0], 2)}, p = {metric.p_value:.4f}",
        )
        for metric in found.totals.metrics
    ]
    a, b = found.totals.length_ratios
    made.append(("length ratio", (f"{a:.3f}", f"{b:.3f}"), signed(b - a, 3)))
    better = found.sentences.lines_better
    differing, lines = found.totals.differing_lines, found.totals.lines
    made.append(
        ("lines better by chrF", (f"{better[0]:,}", f"{better[1]:,}"), f"{differing:,} of {lines:,} lines differ")
    )
    return made
