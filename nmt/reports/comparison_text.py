"""The differences between two systems as text for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from nmt.evaluation.differences.changed_sentences import ChangedSentence
from nmt.evaluation.differences.finding import Differences
from nmt.evaluation.differences.tables import Comparison
from nmt.evaluation.differences.word_diff import Part, word_diff

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


def verdict(found: Differences) -> str:
    """The main result as a sentence."""
    if not found.totals.differing_lines:
        return "The translations are equal."
    metric = found.totals.metrics.records[0]
    gain = metric["values"][1] - metric["values"][0]
    size, p = f"{abs(gain):.2f} {metric['name']}", f"p = {metric['p_value']:.4f}"
    if metric["p_value"] >= SIGNIFICANT:
        return f"The difference of {size} is not significant ({p})."
    better, worse = ("B", "A") if gain > 0 else ("A", "B")
    return f"{better} is better than {worse} by {size} ({p})."


def tables(found: Differences) -> list[Comparison]:
    """The tables without totals, n-grams and sentences; those without rows are left out."""
    every = [found.by_length, found.by_frequency, found.copying, found.length_ratios]
    return [table for table in every if table.rows]


def comparison_json(found: Differences, files: ComparedFiles) -> str:
    """All differences as JSON with a line end."""

    def plain(value: Any) -> Any:
        return value.records if isinstance(value, Comparison) else vars(value)

    return json.dumps(vars(files) | vars(found), indent=2, ensure_ascii=False, default=plain) + "\n"


def comparison_text(found: Differences, files: ComparedFiles) -> str:
    """All differences as Markdown tables, and the sentences that changed most."""
    totals, sentences = found.totals, found.sentences
    heading = [
        f"A: {files.systems[0]}",
        f"B: {files.systems[1]}",
        f"{totals.differing_lines:,} of {totals.lines:,} lines differ. By chrF, A is better in "
        f"{sentences.lines_better[0]:,} of them, and B in {sentences.lines_better[1]:,}.",
        verdict(found),
    ]
    blocks = ["\n".join(heading)]
    ngrams = [table for table in found.ngrams.values() if table.rows]
    blocks += [table.markdown() for table in (totals.metrics, *tables(found), *ngrams)]
    for system, chosen in (("A", sentences.a), ("B", sentences.b)):
        if chosen:
            blocks.append(f"## Sentences that {system} translates better")
            blocks += ["\n".join(_sentence(sentence)) for sentence in chosen]
    return "\n\n".join(blocks) + "\n"


def _sentence(sentence: ChangedSentence) -> Iterator[str]:
    a, b = sentence.chrf
    yield f"line {sentence.line:,}: chrF of A {a:.1f}, of B {b:.1f} ({b - a:+z.1f})"
    if sentence.source is not None:
        yield f"  source     {sentence.source}"
    yield f"  reference  {sentence.reference}"
    parts_a, parts_b = word_diff(*sentence.hypotheses, sentence.reference)
    yield f"  A          {_marked(parts_a, '[-', '-]')}"
    yield f"  B          {_marked(parts_b, '{+', '+}')}"


def _marked(parts: Sequence[Part], begin: str, end: str) -> str:
    """A line with marks around the words in which it differs, whether they are right or wrong."""
    last = len(parts) - 1
    # A space within the line that is a part of its own stands between two that differ.
    differs = [part.kind != "same" or (part.text.isspace() and 0 < index < last) for index, part in enumerate(parts)]
    made = ""
    for marked, group in groupby(zip(parts, differs, strict=True), key=itemgetter(1)):
        words = "".join(part.text for part, _ in group)
        made += f"{begin}{words}{end}" if marked else words
    return made
