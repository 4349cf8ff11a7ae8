"""Word alignments from piece alignments. Words are separated by spaces and tabs, as in Moses and Pharaoh."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

_SPACE = "▁"
_MAX_AT_ONCE = 1_500
"""Longer texts (in characters) are compared block by block."""
_BLOCK = 400
_ANCHOR = 8
"""This many equal characters in a row are taken for a real match."""
_WORD = re.compile(r"[^ \t]+")


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
    """For each piece, the index of the first word of ``text`` that it covers; None if the text has no words.

    A piece that is only a space belongs to the following word.
    """
    words = _WORD.findall(text)
    if not words:
        return [None] * len(pieces)
    spelt, begins = _spelt(pieces)
    spelt_words = spelt.split(_SPACE) if spelt else []
    of_characters = list(_numbered(spelt_words))
    if len(spelt_words) != len(words):
        # A normaliser added or removed a space, or the text was joined from parts.
        of_characters = _mapped(spelt, " ".join(words))
    last = len(words) - 1
    return [of_characters[begin] if begin < len(of_characters) else last for begin in begins]


def _spelt(pieces: Sequence[str]) -> tuple[str, list[int]]:
    """The characters of all pieces with one ``▁`` between words, and the index at which each piece begins."""
    characters: list[str] = []
    begins = []
    is_apart = False
    for piece in pieces:
        begin = None
        for character in piece:
            if character == _SPACE:
                is_apart = bool(characters)
                continue
            if is_apart:
                characters.append(_SPACE)
                is_apart = False
            if begin is None:
                begin = len(characters)
            characters.append(character)
        # The next word begins after the space.
        begins.append(len(characters) + is_apart if begin is None else begin)
    return "".join(characters), begins


def _numbered(words: Sequence[str]) -> list[int]:
    """For each character, and the separator after each word, the number of its word."""
    return [number for number, word in enumerate(words) for _ in range(len(word) + 1)]


def _mapped(spelt: str, text: str) -> list[int]:
    """For each character of ``spelt``, the number of the word in ``text`` that holds the matching character."""
    words = _numbered(text.split(" "))
    found = [0] * len(spelt)
    for begin, end, text_begin, text_end in _matching_spans(spelt.replace(_SPACE, " "), text):
        for index in range(begin, end):
            # A span that was replaced by one of another length is mapped proportionally.
            place = text_begin + (index - begin) * (text_end - text_begin) // (end - begin)
            found[index] = words[min(place, len(text) - 1)]
    return found


def _matching_spans(left: str, right: str) -> Iterator[tuple[int, int, int, int]]:
    """Spans of ``left`` in order, each with the span of ``right`` that equals or replaces it, as four bounds.

    Long texts are compared block by block, because the time of a comparison grows with the square of the length.
    """
    at = right_at = 0
    while at < len(left):
        is_last = max(len(left) - at, len(right) - right_at) <= _MAX_AT_ONCE
        size = _MAX_AT_ONCE if is_last else _BLOCK
        matcher = difflib.SequenceMatcher(None, left[at : at + size], right[right_at : right_at + size], autojunk=False)
        # The ends of two blocks need not match, so the next comparison begins after the last anchor.
        anchors = [match for match in matcher.get_matching_blocks() if match.size >= _ANCHOR]
        bounds = (size, size)
        if anchors and not is_last:
            bounds = anchors[-1].a + anchors[-1].size, anchors[-1].b + anchors[-1].size
        for _, begin, end, right_begin, right_end in matcher.get_opcodes():
            if begin < bounds[0] and right_begin <= bounds[1]:
                yield at + begin, at + end, right_at + right_begin, right_at + right_end
        at, right_at = at + bounds[0], right_at + bounds[1]
