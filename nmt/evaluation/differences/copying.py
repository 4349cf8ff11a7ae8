"""Words copied from the source, and numbers and names that must be: how many each system has."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from nmt.evaluation.differences.parallel_texts import ParallelTexts, Tokens

MAX_EXAMPLES = 5
"""The maximum number of lines that are named as examples for each system."""

_NUMBER = re.compile(r"\d(?:[.,]?\d)*")
_SENTENCE_ENDS = frozenset(".!?…")


@dataclass(frozen=True)
class Kept:
    """A count of how many things each system has, of how many it could have."""

    name: str
    counts: tuple[int, int]
    totals: tuple[int, int]
    examples: tuple[tuple[int, ...], tuple[int, ...]]
    """Numbers of the first lines, from 1, in which system A has more than B, and those in which B has more than A."""
    is_good: bool
    """Whether more of them are better."""


@dataclass(frozen=True)
class _OfLine:
    """The counts of one line."""

    counts: tuple[int, int]
    totals: tuple[int, int]


def copying(texts: ParallelTexts) -> tuple[Kept, ...]:
    """Numbers of the reference that are kept; with a source also its numbers, names, and words copied from it."""
    lines = range(len(texts.reference.lines))
    made = [
        _kept("numbers of the reference kept", lines, lambda line: _numbers(texts, texts.reference.lines[line], line))
    ]
    source = texts.source
    if source is not None:
        made += [
            _kept("numbers of the source kept", lines, lambda line: _numbers(texts, source.lines[line], line)),
            _kept("names kept", lines, lambda line: _names(texts, source.tokens[line], line)),
            _kept(
                "words copied from the source, not in the reference",
                lines,
                lambda line: _copied(texts, source.tokens[line], line),
                is_good=False,
            ),
        ]
    return tuple(made)


def _kept(name: str, lines: Iterable[int], count: Callable[[int], _OfLine], *, is_good: bool = True) -> Kept:
    """The sums of the counts of lines, and the first lines in which they differ."""
    counts, totals = [0, 0], [0, 0]
    examples: tuple[list[int], list[int]] = ([], [])
    for line in lines:
        found = count(line)
        for system in (0, 1):
            counts[system] += found.counts[system]
            totals[system] += found.totals[system]
        if found.counts[0] != found.counts[1]:
            examples[found.counts[1] > found.counts[0]].append(line + 1)
    return Kept(
        name,
        (counts[0], counts[1]),
        (totals[0], totals[1]),
        (tuple(examples[0][:MAX_EXAMPLES]), tuple(examples[1][:MAX_EXAMPLES])),
        is_good,
    )


def _numbers(texts: ParallelTexts, wanted: str, line: int) -> _OfLine:
    expected = Counter(numbers(wanted))
    a, b = ((expected & Counter(numbers(system.lines[line]))).total() for system in texts.systems)
    return _OfLine((a, b), (expected.total(), expected.total()))


def numbers(line: str) -> list[str]:
    """The numbers of a line as plain digits, without separators: 1,000 and 1.000 are equal, and so are 3.5 and 3,5."""
    return [
        "".join(str(unicodedata.decimal(character)) for character in number if character.isdecimal())
        for number in _NUMBER.findall(line)
    ]


def _names(texts: ParallelTexts, source: Tokens, line: int) -> _OfLine:
    expected = Counter(names(source)) & Counter(names(texts.reference.tokens[line]))
    a, b = ((expected & Counter(system.tokens[line])).total() for system in texts.systems)
    return _OfLine((a, b), (expected.total(), expected.total()))


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


def _copied(texts: ParallelTexts, source: Tokens, line: int) -> _OfLine:
    """Words of the hypotheses that stand in the source, but not in the reference."""
    copies = set(source) - set(texts.reference.tokens[line])
    words = [[token for token in system.tokens[line] if _is_word(token)] for system in texts.systems]
    a, b = (sum(word in copies for word in of_system) for of_system in words)
    return _OfLine((a, b), (len(words[0]), len(words[1])))


def _is_word(token: str) -> bool:
    return any(map(str.isalpha, token))
