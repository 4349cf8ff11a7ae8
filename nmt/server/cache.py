"""Translations that were asked for lately: who types asks again for all lines but one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from sys import getsizeof

from nmt.translation.segment import Segment

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
        self._kept: OrderedDict[tuple[Hashable, str], Sequence[Segment]] = OrderedDict()

    def get(self, translator: Hashable, line: str) -> Sequence[Segment] | None:
        """The segments of a line, if they are here."""
        found = self._kept.get((translator, line))
        if found is not None:
            self._kept.move_to_end((translator, line))
        return found

    def put(self, translator: Hashable, line: str, segments: Sequence[Segment]) -> None:
        """Keep the segments of a line."""
        key = translator, line
        if len(line) > _LONGEST or key in self._kept:
            return
        self._kept[key] = segments
        self._size += _size(line, segments)
        while self._size > self._max_size:
            (_, dropped), its_segments = self._kept.popitem(last=False)
            self._size -= _size(dropped, its_segments)


def _size(line: str, segments: Sequence[Segment]) -> int:
    """About how many bytes a line takes with what was found for it. The candidates of a wide beam are most of it."""
    size = _OBJECT + getsizeof(line)
    for segment in segments:
        size += _OBJECT + getsizeof(segment.text) + _ID * len(segment.pieces)
        size += sum(_OBJECT + getsizeof(each.text) + _PIECE * len(each.pieces) for each in segment.candidates)
        size += sum(_OBJECT + _ID * len(each.pieces) for each in segment.others)
        if segment.covered is not None:
            size += getsizeof(segment.covered.text) + sum(_OBJECT + getsizeof(each) for each in segment.covered.kept)
        if segment.onward is not None:
            size += _size("", segment.onward.segments)
    return size
