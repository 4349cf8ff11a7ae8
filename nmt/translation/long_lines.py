"""Splits lines that are longer than the training lines.

Pure functions over text: cut at sentence ends if that suffices, else at punctuation, else between words, else between
characters, in any script.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

# As a share of the limit: 32 pieces of 256, a common length of a sentence.
_SHORT_SENTENCE = 1 / 8

Measure = Callable[[Sequence[str]], list[int]]
"""The lengths of texts, in the unit of the limit."""

_CLOSING = re.escape("\"'”’»›)]」』】》〉）］｝")
# First the marks that end a sentence only before white space (compare 3.14 and example.com), then those that always do:
# the full stops of Chinese and Japanese, Hindi, Urdu, Armenian, Ethiopic, Burmese, Khmer and Tibetan.
# A sequence of the first kind is matched only from its beginning, so that the time is linear in its length.
_SENTENCE_END = re.compile(rf"(?<![.!?…‽؟])[.!?…‽؟]++[{_CLOSING}]*+(?=\s)|[。！？｡।॥۔։።፧፨။។៕།]+[{_CLOSING}]*")
_WHITE_SPACE = re.compile(r"\s+")
_VISIBLE = re.compile(r"\S")
_ZERO_WIDTH_JOINER = "\u200d"
# Marks that are no marks to Unicode: of half-width kana, skin tones, and tags after a flag that spell a region's name.
_OTHER_MARK = re.compile("[\uff9e\uff9f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")


def split(line: str, limit: int, measure: Measure) -> list[str]:
    """Cut a line into parts of at most ``limit``, at the best possible places.

    A line that is too long is cut into sentences, because models are trained on sentences. Short sentences stay with
    their neighbours, so that a full stop after an abbreviation does no harm. A sentence that is too long is cut into
    as few parts as possible, of similar length.

    Every character of the line is in one part, except for white space at the cuts. A line within the limit is returned
    as the only part. A single character that is longer than the limit stays whole.
    """
    [length] = measure([line])
    return [line] if length <= limit else list(_parts(line.strip(), limit, measure, _PLACES))


def _parts(text: str, limit: int, measure: Measure, places: Sequence[Callable[[str], list[int]]]) -> Iterator[str]:
    """Cut a text that is too long at the first kind of place, and parts that are still too long at the next kind."""
    if places:
        units = _cut(text, places[0](text))
        packs = _packed(units, measure(units), limit, places[0]) if len(units) > 1 else units
    else:
        [length] = measure([text])
        packs = _cut(text, _between_characters(text, math.ceil(length / limit)))
        if len(packs) == 1:
            yield text
            return
    stripped = [pack.strip() for pack in packs]
    for part, length in zip(stripped, measure(stripped), strict=True):
        if length > limit:
            yield from _parts(part, limit, measure, places[1:])
        elif part:
            yield part


def _cut(text: str, places: Sequence[int]) -> list[str]:
    return [text[begin:end] for begin, end in itertools.pairwise([0, *places, len(text)]) if begin < end]


def _packed(units: Sequence[str], sizes: Sequence[int], limit: int, place: Callable[[str], list[int]]) -> list[str]:
    """Join neighbouring units within the limit: sentences until they are no longer short, other units evenly."""
    total = sum(sizes)
    enough = limit * _SHORT_SENTENCE if place is _after_sentences else total / math.ceil(total / limit)
    packs: list[list[str]] = []
    filled = math.inf
    for unit, size in zip(units, sizes, strict=True):
        if filled >= enough or filled + size > limit:
            packs.append([])
            filled = 0
        packs[-1].append(unit)
        filled += size
    return ["".join(pack) for pack in packs]


def _after_sentences(text: str) -> list[int]:
    # If the next word is in lower case, the mark ended an abbreviation, or a question inside a sentence.
    ends = (match.end() for match in _SENTENCE_END.finditer(text))
    return [end for end in ends if not _next_visible(text, end).islower()]


def _next_visible(text: str, place: int) -> str:
    match = _VISIBLE.search(text, place)
    return match[0] if match else ""


def _after_punctuation(text: str) -> list[int]:
    return [index for index in range(1, len(text)) if _ends_a_clause(text[index - 1], text[index])]


def _ends_a_clause(character: str, following: str) -> bool:
    category = unicodedata.category(character)
    if category[0] != "P" or category in ("Ps", "Pi", "Pc"):
        return False
    # Scripts with wide characters put no space after punctuation; of several marks, the last one counts.
    is_wide = unicodedata.east_asian_width(character) in "WF" and unicodedata.category(following)[0] != "P"
    return following.isspace() or is_wide


def _between_words(text: str) -> list[int]:
    return [match.start() for match in _WHITE_SPACE.finditer(text)]


def _between_characters(text: str, count: int) -> list[int]:
    """The places at which to cut into ``count`` parts; between a letter and its marks only if unavoidable."""
    places: list[int] = []
    before = 0
    for even in (len(text) * number // count for number in range(1, count)):
        boundary = _back_to_a_boundary(text, even, before)
        if boundary > before:
            places.append(boundary)
        before = even
    return places or [len(text) // 2] * (len(text) > 1)


def _back_to_a_boundary(text: str, place: int, end: int) -> int:
    """The nearest boundary between characters (with their marks) at or before ``place``, but not before ``end``."""
    while place > end and belong_together(text[place - 1], text[place]):
        place -= 1
    return place


def belong_together(character: str, following: str) -> bool:
    """Whether two adjacent code points are, or may be, parts of one visible character."""
    is_mark = unicodedata.category(following)[0] == "M" or _OTHER_MARK.match(following) is not None
    is_flag = _FLAG_LETTER.match(character) is not None and _FLAG_LETTER.match(following) is not None
    return is_mark or is_flag or _ZERO_WIDTH_JOINER in (character, following)


_PLACES = (_after_sentences, _after_punctuation, _between_words)
