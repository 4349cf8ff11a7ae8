"""Translations that were asked for lately: who types asks again for all lines but one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

from nmt.translation.segment import Segment

_MAX_SIZE = 2_000_000
"""In characters of the lines: some 50 MB."""
_LINE = 100
"""What a line takes beside its characters, in characters."""
_LONGEST = 1_000
"""Longer lines, in characters, are not kept."""


class LineCache:
    """The translated segments of lines. Those that were not asked for longest make room for others."""

    def __init__(self, max_size: int = _MAX_SIZE) -> None:
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
        self._size += _LINE + len(line)
        while self._size > self._max_size:
            (_, dropped), _ = self._kept.popitem(last=False)
            self._size -= _LINE + len(dropped)
