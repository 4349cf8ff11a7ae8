"""Translations that were asked for lately: who types asks again for all lines but one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from sys import getsizeof

from nmt.translation.segment import TranslatedSegment

_MAX_SIZE = 30_000_000
"""In bytes, estimated."""
_OBJECT = 400
"""Bytes of a line, a segment or a hypothesis, beside its texts and pieces."""
_ID, _PIECE = 40, 70
"""Bytes of a piece as an integer and as a string, each with its place in a list."""
_LONGEST = 1_000
"""Longer lines, in characters, are not kept."""


class LineCache:
    """The translated segments of lines. Those that were not asked for longest make room for others."""

    def __init__(self, max_size: int = _MAX_SIZE) -> None:
        """Keep at most this number of bytes."""
        self._max_size = max_size
        self._size = 0
        self._kept: OrderedDict[tuple[Hashable, str], Sequence[TranslatedSegment]] = OrderedDict()

    def get(self, translator: Hashable, line: str) -> Sequence[TranslatedSegment] | None:
        """The translated segments of a line, if they are here."""
        found = self._kept.get((translator, line))
        if found is not None:
            self._kept.move_to_end((translator, line))
        return found

    def put(self, translator: Hashable, line: str, parts: Sequence[TranslatedSegment]) -> None:
        """Keep the translated segments of a line."""
        key = translator, line
        if len(line) > _LONGEST or key in self._kept:
            return
        self._kept[key] = parts
        self._size += _size(line, parts)
        while self._size > self._max_size:
            (_, dropped), its_parts = self._kept.popitem(last=False)
            self._size -= _size(dropped, its_parts)


def _size(line: str, parts: Sequence[TranslatedSegment]) -> int:
    """About how many bytes a line takes with what was found for it. The candidates of a wide beam are most of it."""
    size = _OBJECT + getsizeof(line)
    for part in parts:
        size += _OBJECT + getsizeof(part.segment.text) + _ID * len(part.segment.pieces)
        size += sum(_OBJECT + getsizeof(each.text) + _PIECE * len(each.pieces) for each in part.candidates)
        if (covered := part.segment.covered) is not None:
            size += getsizeof(covered.text) + sum(_OBJECT + getsizeof(each) for each in covered.kept)
        size += _size("", part.onward) if part.onward else 0
    return size
