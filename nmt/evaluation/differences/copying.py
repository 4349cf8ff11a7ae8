"""Words copied from the source, and numbers and names that must be: how many each system has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nmt.evaluation.differences.parallel_texts import ParallelTexts, Text
from nmt.evaluation.differences.tables import Comparison
from nmt.text.verbatim import numbers

MAX_EXAMPLES = 5
"""The maximum number of lines that are named as examples for each system."""

_SENTENCE_ENDS = frozenset(".!?…")

Counts = list[tuple[int, int]]
"""For each line, how many things a system has, and how many it could have."""


def copying(texts: ParallelTexts) -> Comparison:
    """Numbers of the reference that are kept; with a source also its numbers, names, and words copied from it.

    Records: ``name``, ``counts``, ``totals``, ``examples`` (the first lines, from 1, in which A has more, and those in
    which B has more; the note has them too), ``is_good`` (whether more of them are better). What occurs nowhere has no
    row.
    """
    table = Comparison("Numbers and names kept, words copied", ["", "A", "B"])
    reference, source = texts.reference, texts.source
    written = [list(map(_numbers, system.lines)) for system in texts.systems]
    _add(table, "numbers of the reference", [_kept(map(_numbers, reference.lines), each) for each in written])
    if source is not None:
        _add(table, "numbers of the source", [_kept(map(_numbers, source.lines), each) for each in written])
        lines = zip(source.tokens, reference.tokens, strict=True)
        expected = [Counter(names(ours)) & Counter(names(theirs)) for ours, theirs in lines]
        _add(table, "names", [_kept(expected, map(Counter, system.tokens)) for system in texts.systems])
        copied = [_copied(system, source, reference) for system in texts.systems]
        _add(table, "copied source words", copied, is_good=False)
    return table


def _add(table: Comparison, name: str, systems: Sequence[Counts], *, is_good: bool = True) -> None:
    """Add the sums of the counts of lines, and the first lines in which they differ."""
    counts, totals = ([sum(line[which] for line in lines) for lines in systems] for which in (0, 1))
    differences = [a - b for (a, _), (b, _) in zip(*systems, strict=True)]
    examples = [
        [line for line, difference in enumerate(differences, start=1) if sign * difference > 0][:MAX_EXAMPLES]
        for sign in (1, -1)
    ]
    table.records.append({"name": name, "counts": counts, "totals": totals, "examples": examples, "is_good": is_good})
    if any(totals):
        shares = [count / total if total else 0.0 for count, total in zip(counts, totals, strict=True)]
        table.rows.append([name, *map(_share, counts, totals)])
        more = [
            f"{system} has more in lines {', '.join(map(str, lines))}"
            for system, lines in zip("AB", examples, strict=True)
            if lines
        ]
        if more:
            table.note = "\n".join(filter(None, (table.note, f"{name}: {'; '.join(more)}")))
        table.gains.append(shares[1] - shares[0] if is_good else shares[0] - shares[1])


def _share(count: int, total: int) -> str:
    return f"{count:,} of {total:,}" + (f" ({count / total:.1%})" if total else "")


def _kept(expected: Iterable[Counter[str]], written: Iterable[Counter[str]]) -> Counts:
    return [((wanted & found).total(), wanted.total()) for wanted, found in zip(expected, written, strict=True)]


def _numbers(line: str) -> Counter[str]:
    return Counter(numbers(line))


def names(tokens: Sequence[str]) -> list[str]:
    """The capitalised words of a line, without those at the beginning of a sentence."""
    found, begins = [], True
    for token in tokens:
        if token in _SENTENCE_ENDS:
            begins = True
        elif _is_word(token):
            if not begins and token[0].isupper():
                found.append(token)
            begins = False
    return found


def _copied(system: Text, source: Text, reference: Text) -> Counts:
    """Words of the hypotheses that stand in the source, but not in the reference."""
    counts = []
    for hypothesis, of_source, expected in zip(system.tokens, source.tokens, reference.tokens, strict=True):
        copies = set(of_source) - set(expected)
        words = list(filter(_is_word, hypothesis))
        counts.append((sum(word in copies for word in words), len(words)))
    return counts


def _is_word(token: str) -> bool:
    return any(map(str.isalpha, token))
