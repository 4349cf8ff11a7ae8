"""The sizes of searches whose steps are recorded. They are few, so that a recording is used again.

The numbers of sentences, of source pieces and of steps that there is room for are rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nmt.model.packing import rounded_up

_SIZES_PER_OCTAVE, _SOURCE_STEP, _MIN_ROOM = 2, 16, 32
# A GPU makes a step for eight sentences in the time of a step for one.
_MIN_SENTENCES = 8


@dataclass(frozen=True)
class Size:
    """A size of the buffers."""

    sentences: int
    beam: int
    source: int
    room: int
    """The steps that there is room for."""

    @staticmethod
    def of(sentences: int, beam: int, source: int) -> Size:
        """The smallest size at the beginning of a search. A target is about as long as its source."""
        source = -(-source // _SOURCE_STEP) * _SOURCE_STEP
        return Size(_few(sentences, _MIN_SENTENCES), beam, source, _few(source, _MIN_ROOM))

    def for_length(self, length: int) -> Size:
        """The smallest size with room for a number of steps."""
        size = self
        while size.room < length:
            size = size.with_more_room()
        return size

    def for_sentences(self, sentences: int) -> Size:
        """The smallest size for fewer sentences."""
        return replace(self, sentences=_few(sentences, _MIN_SENTENCES))

    def with_more_room(self) -> Size:
        """Room for twice as many steps."""
        return replace(self, room=2 * self.room)


def _few(count: int, minimum: int) -> int:
    """The number, rounded up to one of few."""
    return max(minimum, rounded_up(count, _SIZES_PER_OCTAVE))
