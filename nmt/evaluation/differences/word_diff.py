"""The words in which two lines differ, for display. The parts of a line, joined, are the line."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

MAX_PRODUCT = 1_000_000
"""Lines with more pairs of words, between their common beginning and end, are not compared word by word."""

# Words, single characters of scripts without spaces, spaces, and single other characters.
_UNSPACED = r"\u3040-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|\s+|.")

Kind = Literal["same", "right", "wrong"]
"""In both lines; only in this line, and also in the reference; only in this line."""


@dataclass(frozen=True)
class Part:
    """Some words of a line, with the spaces between them."""

    text: str
    kind: Kind


def word_diff(first: str, second: str, reference: str) -> tuple[list[Part], list[Part]]:
    """Mark the words of two lines that are not in their longest common subsequence.

    Args:
        reference: a marked word that this line also has is right.

    Returns:
        The parts of both lines.
    """
    a, b = _words(first), _words(second)
    words_a, words_b = ([word for word in line if not word.isspace()] for line in (a, b))
    known = set(_words(reference))
    common = _common(words_a, words_b)
    return (
        _parts(a, {i for i, _ in common}, known),
        _parts(b, {j for _, j in common}, known),
    )


def _words(line: str) -> list[str]:
    return _WORDS.findall(line)


def _parts(line: Sequence[str], common: Container[int], reference: Container[str]) -> list[Part]:
    """Words of one kind in a row, with the spaces between them, are one part."""
    kinds: list[Kind | None] = []
    position = 0
    for word in line:
        if word.isspace():
            kinds.append(None)
            continue
        kinds.append("same" if position in common else "right" if word in reference else "wrong")
        position += 1
    # A space has the kind of its neighbours, if both are equal.
    for index, kind in enumerate(kinds):
        if kind is None:
            before = kinds[index - 1] if index else None
            after = kinds[index + 1] if index + 1 < len(kinds) else None
            kinds[index] = before if before == after and before is not None else "same"
    pairs = zip(line, kinds, strict=True)
    return [
        Part("".join(word for word, _ in group), kind or "same") for kind, group in groupby(pairs, key=lambda p: p[1])
    ]


def _common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of a longest common subsequence, in order; of very long lines only of their common ends."""
    begin = 0
    while begin < min(len(a), len(b)) and a[begin] == b[begin]:
        begin += 1
    end = 0
    while end < min(len(a), len(b)) - begin and a[-1 - end] == b[-1 - end]:
        end += 1
    middle_a, middle_b = a[begin : len(a) - end], b[begin : len(b) - end]
    middle = _longest_common(middle_a, middle_b) if len(middle_a) * len(middle_b) <= MAX_PRODUCT else []
    return [
        *((i, i) for i in range(begin)),
        *((begin + i, begin + j) for i, j in middle),
        *((len(a) - i, len(b) - i) for i in range(end, 0, -1)),
    ]


def _longest_common(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The positions of a longest common subsequence, by dynamic programming.

    ``lengths[i][j]`` is the length for ``a[i:]`` and ``b[j:]``.
    """
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below = lengths[i], lengths[i + 1]
        for j in range(len(b) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if a[i] == b[j] else max(below[j], row[j + 1])
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return found
