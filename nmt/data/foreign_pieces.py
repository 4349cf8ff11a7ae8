"""Pieces that only the translation model has, or only its SentencePiece model.

A model trained elsewhere may have more pieces than the SentencePiece model of one of its languages: those of the other
language, and the tags (``>>deu<<``) by which a multilingual model is told the target language. In our files they are
control pieces after the four special ones. It may also lack pieces of its SentencePiece model. In our files these come
last, and text that they segment is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sentencepiece import SentencePieceProcessor

LANGUAGE_TAG = re.compile(r">>[\w-]+<<")
"""The piece that names a target language, such as ``>>deu<<``."""
_ESCAPED = re.compile("[\udc80-\udcff]")
_FIRST = 4
_SPACE = "▁"


class ForeignPieces:
    """Encodes and decodes the foreign pieces of one vocabulary."""

    def __init__(self, processor: SentencePieceProcessor, pieces: Sequence[str], unk: int) -> None:
        self._processor, self._pieces, self._unk = processor, pieces, unk
        self._ids = {pieces[index]: index for index in range(_FIRST, len(pieces)) if processor.is_control(index)}
        self._foreign = frozenset(self._ids.values())
        self._lacks_pieces = len(pieces) < processor.get_piece_size()
        self.tags = tuple(piece for piece in self._ids if LANGUAGE_TAG.fullmatch(piece))
        """The pieces that name a language, such as ``>>deu<<``."""

    def __bool__(self) -> bool:
        return bool(self._ids) or self._lacks_pieces

    def split_tag(self, line: str) -> tuple[str, str]:
        """The tag that a line begins with (or no text), and the rest of the line.

        Without tags in the vocabulary there is none in a line.
        """
        match = LANGUAGE_TAG.match(line) if self.tags else None
        return ("", line) if match is None else (match[0], line[match.end() :])

    def tag_ids(self, tag: str) -> list[int]:
        """The id of a tag; an unknown one is the unknown piece."""
        return [self._ids.get(tag, self._unk)] if tag else []

    def find(self, line: str, ids: list[int]) -> list[int]:
        """The ids of a line, with unknown pieces replaced by the foreign ones of the same characters.

        Args:
            ids: those that SentencePiece gives.
        """
        if self._unk not in ids:
            return ids
        pieces: list[str] = self._processor.encode(line, out_type=str)
        return [
            self._ids.get(piece, self._unk) if index == self._unk else index
            for index, piece in zip(ids, pieces, strict=True)
        ]

    def known(self, ids: list[int]) -> list[int]:
        """The ids, with the unknown piece for those that the translation model lacks."""
        return [index if index < len(self._pieces) else self._unk for index in ids] if self._lacks_pieces else ids

    def occur_in(self, ids: Iterable[int]) -> bool:
        """Whether any of the ids is a foreign piece."""
        return not self._foreign.isdisjoint(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of pieces of which some are foreign."""
        text = bytearray()
        for index in ids:
            piece = self._pieces[index]
            if self._processor.is_byte(index):
                text.append(int(piece[3:5], 16))
            elif index == self._unk:
                text += self._processor.decode([index]).encode()
            elif index >= _FIRST:
                text += piece.replace(_SPACE, " ").encode()
        # As SentencePiece decodes: each byte that is no UTF-8 is one U+FFFD.
        return _ESCAPED.sub("\ufffd", text.decode(errors="surrogateescape")).removeprefix(" ")
