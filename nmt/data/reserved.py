"""Characters that SentencePiece reserves for itself, encoded as bytes so that they survive.

U+2581 marks a space inside SentencePiece, and some of its versions end a string at a NUL. A vocabulary with byte pieces
can spell both, but SentencePiece does not use the byte pieces for them. So each is replaced by a *stand-in*: a
private-use character that occurs neither in the line nor in the vocabulary. SentencePiece spells the stand-in in bytes,
which are then replaced by the bytes of the reserved character.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

RESERVED = "\u2581\0"
_LAST_PRIVATE = 0x10FFFD


class ReservedCharacters:
    """Encodes reserved characters with the byte pieces of one SentencePiece model."""

    def __init__(self, byte_ids: Mapping[int, int], pieces: Iterable[str]) -> None:
        """``byte_ids``: the id of each byte's piece; empty if the model has none."""
        self._byte_ids = byte_ids
        self._known = set(itertools.chain.from_iterable(pieces))

    def hide(self, line: str) -> tuple[str, dict[str, str]]:
        """The line with stand-ins for its reserved characters, and the character of each stand-in.

        Without byte pieces a NUL becomes a space, and U+2581 stays: SentencePiece reads it as a space.
        """
        if len(self._byte_ids) < 256:
            return line.replace("\0", " "), {}
        candidates = (chr(code) for code in range(_LAST_PRIVATE, 0, -1))
        free = (character for character in candidates if character not in self._known and character not in line)
        stand_ins = {next(free): character for character in RESERVED if character in line}
        for stand_in, character in stand_ins.items():
            line = line.replace(character, stand_in)
        return line, stand_ins

    def restore(self, ids: Sequence[int], stand_ins: dict[str, str]) -> list[int]:
        """The ids of a line, with the bytes of stand-ins replaced by those of the reserved characters."""
        restored = list(ids)
        for stand_in, character in stand_ins.items():
            restored = _replaced(restored, self._bytes_of(stand_in), self._bytes_of(character))
        return restored

    def _bytes_of(self, character: str) -> list[int]:
        return [self._byte_ids[byte] for byte in character.encode()]


def _replaced(ids: list[int], old: list[int], new: list[int]) -> list[int]:
    """The ids with every occurrence of one sequence replaced by another."""
    replaced: list[int] = []
    place = 0
    while place < len(ids):
        found = ids[place : place + len(old)] == old
        replaced += new if found else ids[place : place + 1]
        place += len(old) if found else 1
    return replaced
