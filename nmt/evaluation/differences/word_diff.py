"""The words in which two lines differ, for display. The parts of a line, joined, are the line."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

import regex

from nmt.text.languages import UNSPACED

# Words, single characters of scripts without spaces, spaces, and single other characters.
_WORDS = regex.compile(rf"[{UNSPACED}]|[\w--[{UNSPACED}]]+|\s+|.", regex.V1)

_MAX_AT_ONCE, _BLOCK = 1_000, 200
"""The maximum number of words that are compared at once, and the words of a block of longer lines."""

Kind = Literal["same", "right", "wrong"]
"""In both lines; only in this line, and also in the reference; only in this line."""


@dataclass(frozen=True)
class Part:
    """Some words of a line, with the spaces between them."""

    text: str
    kind: Kind


def word_diff(first: str, second: str, reference: str) -> tuple[list[Part], list[Part]]:
    """Mark the words of two lines that have no equal word in the other line, in the same order.

    Args:
        reference: a marked word that this line also has is right.

    Returns:
        The parts of both lines.
    """
    a, b = _WORDS.findall(first), _WORDS.findall(second)
    words_a, words_b = ([word for word in line if not word.isspace()] for line in (a, b))
    known = set(_WORDS.findall(reference))
    pairs = list(_equal_words(words_a, words_b))
    same_a, same_b = {place for place, _ in pairs}, {place for _, place in pairs}
    return _parts(a, same_a, known), _parts(b, same_b, known)


def _equal_words(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of equal words in the same order.

    Long lines are compared block by block: the time of a comparison may grow with the third power of the length, though
    it ignores words that are frequent in more than 200.
    """
    at_a = at_b = 0
    while at_a < len(a) and at_b < len(b):
        is_last = max(len(a) - at_a, len(b) - at_b) <= _MAX_AT_ONCE
        size = _MAX_AT_ONCE if is_last else _BLOCK
        matcher = SequenceMatcher(None, a[at_a : at_a + size], b[at_b : at_b + size])
        end_a = end_b = 0
        for match in matcher.get_matching_blocks():
            yield from ((at_a + match.a + offset, at_b + match.b + offset) for offset in range(match.size))
            if match.size:
                end_a, end_b = match.a + match.size, match.b + match.size
        # The next block begins behind the last equal words, unless they are so few that nothing is gained.
        is_anchored = not is_last and min(end_a, end_b) >= _BLOCK // 2
        at_a, at_b = (at_a + end_a, at_b + end_b) if is_anchored else (at_a + size, at_b + size)


def _parts(line: Sequence[str], same: Container[int], reference: Container[str]) -> list[Part]:
    """Words of one kind in a row, with the spaces between them, are one part.

    Args:
        same: the positions of words, not counting spaces, that the other line has too.
    """
    indices = [index for index, word in enumerate(line) if not word.isspace()]
    kinds: dict[int, Kind] = {
        index: "same" if position in same else "right" if line[index] in reference else "wrong"
        for position, index in enumerate(indices)
    }
    for index in range(len(line)):
        if index not in kinds:
            # A space has the kind of its neighbours, if both are equal.
            before, after = kinds.get(index - 1), kinds.get(index + 1)
            kinds[index] = before if before is not None and before == after else "same"
    groups = groupby(enumerate(line), key=lambda item: kinds[item[0]])
    return [Part("".join(word for _, word in group), kind) for kind, group in groups]
