"""The vocabulary of a model of another toolkit: the toolkit's own list of pieces beside its SentencePiece model.

SentencePiece segments the text, and the list gives each piece its id. A piece that is not in the list is unknown. The
list may hold pieces that SentencePiece never makes of text: those of the other language, and the tags (``>>deu<<``) by
which a multilingual model is told the target language. Some toolkits have no SentencePiece model: their pieces are
words, or what a list of merges makes of words.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from nmt.config.documents import parse_json
from nmt.data import byte_pair_codes
from nmt.data.arrays import Rows
from nmt.data.byte_pair_codes import BytePairCodes
from nmt.data.segmentation import SegmentationSampler
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary, without_reserved
from nmt.errors import VocabularyError

LANGUAGE_TAG = re.compile(r">>[\w-]+<<")
"""The piece that names a target language, such as ``>>deu<<``."""
_ESCAPED = re.compile("[\udc80-\udcff]")
_SPACE = "▁"
_FIRST = len(SPECIAL_PIECES)


class _Listed(BaseModel):
    """The content of the file beside the SentencePiece model, by the arguments of :class:`ImportedVocabulary`."""

    model_config = ConfigDict(strict=True, extra="forbid")
    segmented: bool
    codes: str | None
    restricted: bool
    silent: list[str]
    pieces: list[str]


class ImportedVocabulary(Vocabulary):
    """A list of pieces by id, and the SentencePiece model that segments text.

    Text becomes *marks* first: the ids of SentencePiece's pieces, and behind them those of the pieces that only the
    list has. Marks then become ids.
    """

    def __init__(
        self,
        model_bytes: bytes,
        pieces: Sequence[str],
        *,
        is_segmented: bool = False,
        codes: str | None = None,
        is_restricted: bool = False,
        silent: Iterable[str] = (),
        name: str = "vocabulary",
    ) -> None:
        """Take a serialised SentencePiece model and the pieces by id.

        Args:
            is_segmented: whether text comes as words separated by spaces, which are the pieces or are split by codes.
            codes: the merges by which words are split (:mod:`nmt.data.byte_pair_codes`).
            is_restricted: whether merges are undone whose result is none of the pieces.
            silent: pieces that no text becomes and that become no text, such as the codes of languages.

        Raises:
            VocabularyError: the bytes are not a SentencePiece model, or the pieces do not begin with the special ones.
        """
        super().__init__(model_bytes, name=name)
        if tuple(pieces[:_FIRST]) != SPECIAL_PIECES:
            raise VocabularyError(f"{name}: the pieces must begin with {', '.join(SPECIAL_PIECES)}. Copy it again.")
        if double := next((piece for piece, count in Counter(pieces).items() if count > 1), None):
            raise VocabularyError(f"{name}: has the piece {double[:60]!r} twice. Give one of them another name.")
        self.is_segmented = is_segmented
        unheard = self.silent = frozenset(silent)
        heard = {piece.removeprefix(_SPACE) for piece in pieces[_FIRST:] if piece not in unheard}
        self.codes = None if codes is None else BytePairCodes(codes, pieces=heard if is_restricted else None, name=name)
        content = {
            "segmented": is_segmented,
            "codes": codes,
            "restricted": is_restricted,
            "silent": sorted(unheard),
            "pieces": list(pieces),
        }
        self.pieces_json = (json.dumps(content, ensure_ascii=False, indent=0) + "\n").encode()
        processor, self._made, self._pieces = self._processor, self._pieces, list(pieces)
        marks = {
            piece: mark
            for mark, piece in enumerate(self._made)
            if not (processor.is_unknown(mark) or processor.is_control(mark))
        }
        self._others = [piece for piece in pieces[_FIRST:] if piece not in marks and piece not in unheard]
        """The pieces that SentencePiece never makes."""
        self._other_marks = {piece: mark for mark, piece in enumerate(self._others, start=len(self._made))}
        marks |= self._other_marks
        self._unknown_mark: int = processor.unk_id()
        marks |= dict.fromkeys(unheard, -1)
        self._marks = [-1, self._unknown_mark, -1, -1, *(marks[piece] for piece in pieces[_FIRST:])]
        """The mark of each id; -1 for pieces without text."""
        self._ids = np.full(len(self._made) + len(self._others), self.UNK, np.int32)
        """The id of each mark."""
        listed = [index for index in range(_FIRST, len(pieces)) if self._marks[index] >= 0]
        self._ids[[self._marks[index] for index in listed]] = listed
        self._id_of_mark: list[int] = self._ids.tolist()
        self._id_of_piece = {piece: index for index, piece in enumerate(pieces)}
        self.language_tags = tuple(filter(LANGUAGE_TAG.fullmatch, self._others))

    @staticmethod
    def read(model_bytes: bytes, pieces_json: bytes, *, name: str) -> ImportedVocabulary:
        """Read a vocabulary from the content of its two files.

        Raises:
            VocabularyError: a file is damaged.
        """
        try:
            content: Any = parse_json(pieces_json)
            listed = _Listed.model_validate(content)
        except (ValueError, TypeError):
            raise VocabularyError(f"{name}: its list of pieces is damaged. Import the model again.") from None
        return ImportedVocabulary(
            model_bytes,
            listed.pieces,
            is_segmented=listed.segmented,
            codes=listed.codes,
            is_restricted=listed.restricted,
            silent=listed.silent,
            name=name,
        )

    def _check_special_ids(self, name: str) -> None:
        """The SentencePiece model may have any: the list gives the ids."""

    def encode_rows(self, lines: Sequence[str]) -> Rows:
        """As :meth:`Vocabulary.encode_rows`."""
        if self._is_prepared:
            return super().encode_rows(lines)
        marks = Rows.of(self._segment(lines, threads=1))
        return Rows(self._ids[marks.values], marks.lengths)

    def _ids_of(self, segmented: list[list[int]]) -> list[list[int]]:
        return [[self._id_of_mark[mark] for mark in marks] for marks in segmented]

    def _segment(self, lines: Sequence[str], threads: int) -> list[list[int]]:
        """The marks of each line."""
        split = [self.split_tag(line) for line in lines]
        if self.is_segmented:
            words, unknown = self._words, self._unknown_mark
            split_words = ([*filter(None, [tag]), *self._split(rest)] for tag, rest in split)
            return [[words.get(piece, unknown) for piece in pieces] for pieces in split_words]
        lines = without_reserved(line for _, line in split)
        encoded = super()._segment(lines, threads)
        for index, (tag, _) in enumerate(split):
            if self._other_marks and self._unknown_mark in encoded[index]:
                encoded[index] = self._with_others(lines[index], encoded[index])
            if tag:
                encoded[index] = [self._other_marks.get(tag, self._unknown_mark), *encoded[index]]
        return encoded

    def _split(self, line: str) -> Iterable[str]:
        """The pieces of segmented text, or those of its words by the codes, which know words by spaces alone."""
        if self.codes is not None:
            line = " ".join(itertools.chain.from_iterable(map(self.codes.split, filter(None, line.split(" ")))))
        return filter(None, line.split(self._separator))

    def _with_others(self, line: str, marks: list[int]) -> list[int]:
        """The marks of a line, where unknown text that is a piece of the list has that piece's mark."""
        pieces: list[str] = self._processor.encode(line, out_type=str)
        return [
            self._other_marks.get(piece, mark) if mark == self._unknown_mark else mark
            for mark, piece in zip(marks, pieces, strict=True)
        ]

    def split_tag(self, line: str) -> tuple[str, str]:
        """As :meth:`Vocabulary.split_tag`. Without tags in the vocabulary there is none in a line."""
        match = LANGUAGE_TAG.match(line.lstrip()) if self.language_tags else None
        return ("", line) if match is None else (match[0], line.lstrip()[match.end() :])

    def _decoded(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        marks = [[mark for index in ids if (mark := self._marks[index]) >= 0] for ids in sentences]
        joined = {
            place: self._joined(row) for place, row in enumerate(marks) if max(row, default=-1) >= len(self._made)
        }
        decoded = super()._decoded([[] if place in joined else row for place, row in enumerate(marks)])
        texts = [joined.get(place, text) for place, text in enumerate(decoded)]
        return texts if self.codes is None else list(map(byte_pair_codes.joined, texts))

    def _joined(self, marks: Sequence[int]) -> str:
        """The text of marks of which some are unknown to SentencePiece, as it would decode them."""
        text = bytearray()
        for mark in marks:
            piece = self._pieces[self._id_of_mark[mark]]
            if mark == self._unknown_mark:
                text += self._processor.decode([mark]).encode()
            elif mark < len(self._made) and self._processor.is_byte(mark):
                text.append(int(piece[3:5], 16))
            else:
                text += piece.replace(_SPACE, " ").encode()
        # As SentencePiece decodes: each byte that is no UTF-8 is one U+FFFD.
        return _ESCAPED.sub("\ufffd", text.decode(errors="surrogateescape")).removeprefix(" ").replace("\n", " ")

    @property
    def byte_ids(self) -> frozenset[int]:
        """As :attr:`Vocabulary.byte_ids`."""
        made = filter(self._processor.is_byte, range(len(self._made)))
        return frozenset(self._id_of_mark[mark] for mark in made) - {self.UNK}

    @functools.cached_property
    def _sampler(self) -> SegmentationSampler:
        listed = np.flatnonzero(self._ids[: len(self._made)] != self.UNK)
        return SegmentationSampler(self._processor, frozenset(listed.tolist()), self._others)

    def ids(self, pieces: Iterable[str]) -> list[int]:
        """As :meth:`Vocabulary.ids`."""
        return [self._id_of_piece.get(piece, self.UNK) for piece in pieces]

    @functools.cached_property
    def _words(self) -> dict[str, int]:
        """The marks of the pieces that segmented text names."""
        return {
            piece.removeprefix(_SPACE): mark
            for piece, mark in zip(self._pieces[_FIRST:], self._marks[_FIRST:], strict=True)
            if mark >= 0
        }

    @functools.cached_property
    def _separator(self) -> str | None:
        """What separates pieces in segmented text: spaces if a piece holds other white space, else any white space.

        fairseq and Sockeye split text at any white space. JoeyNMT splits words at spaces, so a word may hold another.
        """
        return " " if any(map(str.isspace, "".join(self._words))) else None
