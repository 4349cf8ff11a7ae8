"""Word alignments from piece alignments. Words are separated by spaces and tabs, as in Moses and Pharaoh."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from nmt.spans.positions import WORD, begins


def pharaoh(
    source: str,
    source_pieces: Sequence[str],
    target: str,
    target_pieces: Sequence[str],
    alignment: Sequence[int | None],
) -> str:
    """The word alignment in Pharaoh's format, such as ``0-0 1-2``: sorted pairs of source and target index, from 0.

    Args:
        alignment: for each target piece, the index of a source piece or None.
    """
    source_words = word_of_each(source_pieces, source)
    target_words = word_of_each(target_pieces, target)
    pairs = {
        (source_words[index], target_word)
        for target_word, index in zip(target_words, alignment, strict=True)
        if index is not None
    }
    found = sorted((left, right) for left, right in pairs if left is not None and right is not None)
    return " ".join(f"{left}-{right}" for left, right in found)


def word_of_each(pieces: Sequence[str], text: str) -> list[int | None]:
    """For each piece, the index of the first word of ``text`` that it covers; None if the text has no words."""
    starts = [word.start() for word in WORD.finditer(text)]
    if not starts:
        return [None] * len(pieces)
    return [max(bisect.bisect_right(starts, place) - 1, 0) for place in begins(pieces, text)]
