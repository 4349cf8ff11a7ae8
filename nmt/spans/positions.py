"""Where the pieces of a text stand in it, although a normaliser may have changed the text before it became pieces."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

import regex

from nmt.text.languages import UNSPACED

_SPACE = "▁"
_MAX_AT_ONCE = 1_500
"""Longer texts (in characters) are compared block by block."""
_BLOCK = 400
_ANCHOR = 8
"""This many equal characters in a row are taken for a real match."""
WORD = re.compile(r"[^ \t]+")
"""A word in the sense of Moses and Pharaoh."""
LETTER = rf"[\w--[_\u200c\p{{Hang}}{UNSPACED}]]"
"""A letter, digit or combining mark of a script with spaces between words, for ``regex.V1``. Korean particles and
Persian endings behind a zero-width non-joiner follow a word without a space: neither is part of it."""
_SPACED, _JOINED = regex.compile(LETTER, regex.V1), regex.compile(rf"[{UNSPACED}\p{{Hang}}]")


def needs_space(source: str, target: str) -> bool:
    """Whether a letter of the target needs a space beside what was put there, though one of the source has none.

    Words of Chinese, Thai or Korean stand beside a placeholder without a space.
    """
    return bool(_JOINED.match(source) and _SPACED.match(target))


def begins(pieces: Sequence[str], text: str) -> list[int]:
    """For each piece, the place of the first character of ``text`` that it covers, in characters; 0 without words.

    A piece that is only a space belongs to the following word.
    """
    words = list(WORD.finditer(text))
    if not words:
        return [0] * len(pieces)
    spelt, starts = _spelt(pieces)
    spelt_words = spelt.split(_SPACE) if spelt else []
    if len(spelt_words) == len(words):
        places = [
            word.start() + min(index * len(word[0]) // max(len(one), 1), len(word[0]) - 1)
            for one, word in zip(spelt_words, words, strict=True)
            for index in range(len(one) + 1)
        ]
    else:  # a normaliser added or removed a space, or the text was joined from parts
        places = _mapped(spelt, text)
    last = words[-1].start()
    return [places[start] if start < len(places) else last for start in starts]


def _spelt(pieces: Sequence[str]) -> tuple[str, list[int]]:
    """The characters of all pieces with one ``▁`` between words, and the index at which each piece begins."""
    characters: list[str] = []
    starts = []
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
        starts.append(len(characters) + is_apart if begin is None else begin)
    return "".join(characters), starts


def _mapped(spelt: str, text: str) -> list[int]:
    """For each character of ``spelt``, the place of the matching character of ``text``."""
    found = [0] * len(spelt)
    for begin, end, text_begin, text_end in _matching_spans(spelt.replace(_SPACE, " "), text):
        for index in range(begin, end):
            # A span that was replaced by one of another length is mapped proportionally.
            place = text_begin + (index - begin) * (text_end - text_begin) // (end - begin)
            found[index] = min(place, len(text) - 1)
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
