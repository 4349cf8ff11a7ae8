"""Which characters of a translation come from which characters of its source, from the alignment of their pieces."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Generic, NamedTuple, TypeVar

from nmt.spans.positions import WORD, begins

T = TypeVar("T")


class Link(NamedTuple):
    """Some characters of a translation, with those of the source that they come from."""

    start: int
    end: int
    source_start: int
    source_end: int


def links(
    source: str,
    source_pieces: Sequence[str],
    target: str,
    target_pieces: Sequence[str],
    alignment: Sequence[int | None],
) -> list[Link]:
    """The links of a translation, in its order; characters that come from nothing have none.

    Args:
        alignment: for each target piece, the index of a source piece or None.
    """
    of_source, of_target = _ranges(source_pieces, source), _ranges(target_pieces, target)
    return [
        Link(*here, *of_source[index])
        for here, index in zip(of_target, alignment, strict=False)
        if index is not None and here[0] < here[1]
    ]


class Overlaps(Generic[T]):
    """Finds the items that overlap a range, by their own ranges, in order. Texts may have thousands of them."""

    def __init__(self, items: Iterable[T], range_of: Callable[[T], tuple[int, int]]) -> None:
        self._items = sorted(items, key=range_of)
        ranges = list(map(range_of, self._items))
        self._starts, self._ends = ([each[side] for each in ranges] for side in (0, 1))
        self._reached = list(accumulate(self._ends, max))

    def of(self, start: int, end: int) -> list[T]:
        """The items that overlap a range."""
        near = range(bisect_right(self._reached, start), bisect_left(self._starts, end))
        return [self._items[number] for number in near if self._ends[number] > start]


def through(first: Sequence[Link], second: Sequence[Link]) -> list[Link]:
    """The links of a translation of a translation: the first's target is the second's source."""
    overlaps = Overlaps(first, lambda one: one[:2])
    found = []
    for link in second:
        if near := overlaps.of(link.source_start, link.source_end):
            best = max(near, key=lambda one: min(link.source_end, one.end) - max(link.source_start, one.start))
            found.append(Link(link.start, link.end, best.source_start, best.source_end))
    return found


def by_place(source: str, target: str) -> list[Link]:
    """Links for a translation without an alignment: each word comes from where it stands, in proportion."""
    scale = len(source) / max(len(target), 1)
    return [
        Link(*word.span(), int(word.start() * scale), max(int(word.start() * scale) + 1, int(word.end() * scale)))
        for word in WORD.finditer(target)
    ]


def _ranges(pieces: Sequence[str], text: str) -> list[tuple[int, int]]:
    """For each piece the characters of a text that it covers, without spaces at the ends."""
    starts = begins(pieces, text)
    found = []
    for start, following in pairwise([*starts, len(text)]):
        part = text[start : max(start, following)]
        begin = start + len(part) - len(part.lstrip())
        found.append((begin, begin + len(part.strip())))
    return found
