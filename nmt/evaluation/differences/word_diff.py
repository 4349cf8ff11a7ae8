"""The words in which two lines differ, for display. The parts of a line, joined, are the line."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

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
    """Mark the words of two lines that have no equal word in the other line, in the same order.

    Args:
        reference: a marked word that this line also has is right.

    Returns:
        The parts of both lines.
    """
    a, b = _WORDS.findall(first), _WORDS.findall(second)
    words_a, words_b = ([word for word in line if not word.isspace()] for line in (a, b))
    known = set(_WORDS.findall(reference))
    # It ignores words of which a long line has very many: else its time would be quadratic.
    blocks = SequenceMatcher(None, words_a, words_b).get_matching_blocks()
    same_a = {i + offset for i, _, size in blocks for offset in range(size)}
    same_b = {j + offset for _, j, size in blocks for offset in range(size)}
    return _parts(a, same_a, known), _parts(b, same_b, known)


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
