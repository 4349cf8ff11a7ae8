"""The differences between two systems as text for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter

from nmt.evaluation.differences import ChangedSentence, Differences, Part, word_diff
from nmt.reports.comparison_tables import ComparedFiles, Table, ngram_tables, signed, tables, totals_table, verdict
from nmt.reports.text_table import TextTable


def comparison_json(found: Differences, files: ComparedFiles) -> str:
    """All differences as JSON with a line end."""
    return json.dumps(asdict(files) | asdict(found), indent=2, ensure_ascii=False) + "\n"


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
    blocks += [_table(table) for table in (totals_table(found), *tables(found, files), *ngram_tables(found))]
    for system, chosen in (("A", sentences.a), ("B", sentences.b)):
        if chosen:
            blocks.append(f"## Sentences that {system} translates better")
            blocks += ["\n".join(_sentence(sentence)) for sentence in chosen]
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> str:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in table.rows]
    return str(TextTable(table.header, table.title, table.note, rows))


def _sentence(sentence: ChangedSentence) -> Iterator[str]:
    a, b = sentence.chrf
    yield f"line {sentence.line:,}: chrF of A {a:.1f}, of B {b:.1f} ({signed(b - a, 1)})"
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
