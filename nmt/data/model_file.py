"""The file of a SentencePiece model, a message of Protocol Buffers: its pieces can be listed and put in another order.

SentencePiece has no call for that, and its own module for these messages works only with one recent runtime of Protocol
Buffers. The few fields that are needed are read and written here; all others are kept as they are.

A model may hold a second one, for target text, in a field that SentencePiece skips. Another such field says how many of
its pieces a translation model knows: SentencePiece may need more of them to segment text as before. A third one says
that text comes as pieces separated by spaces: SentencePiece would make one unknown piece of several words.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

_PIECE = 1  # ModelProto.pieces
_SELF_TEST = 4  # ModelProto.self_test_data
_TARGET_MODEL = 200  # the first number that ModelProto leaves to others
_KNOWN_PIECES = 201
_SEGMENTED_TEXT = 202
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_SCORE_BYTES = 4
_TEXT, _SCORE, _KIND = 1, 2, 3  # ModelProto.SentencePiece


def _varint_bytes(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_TARGET_TAG = _varint_bytes(_TARGET_MODEL << 3 | _LENGTH)
_KNOWN_PIECES_TAG = _varint_bytes(_KNOWN_PIECES << 3 | _VARINT)
_SEGMENTED_TEXT_FIELD = _varint_bytes(_SEGMENTED_TEXT << 3 | _VARINT) + _varint_bytes(1)


class PieceKind(IntEnum):
    """ModelProto.SentencePiece.Type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Piece:
    """One piece of a model; its id is its place in the file."""

    text: str
    score: float = 0.0
    kind: PieceKind = PieceKind.NORMAL


def read_pieces(model: bytes) -> list[Piece]:
    """The pieces of a model, by id.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    return [_piece(field.value) for field in _fields(model) if field.number == _PIECE]


def with_pieces(model: bytes, pieces: Iterable[Piece]) -> bytes:
    """The model with other pieces: everything else, such as its normaliser, stays as it is.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    # The examples that the model tests itself with when it is loaded name pieces that may be gone.
    kept = b"".join(field.all for field in _fields(model) if field.number not in (_PIECE, _SELF_TEST))
    return b"".join(_length_field(_PIECE, _serialised(piece)) for piece in pieces) + kept


def target_model(model: bytes) -> bytes | None:
    """The model for target text that lies within a model; None if there is none.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    if _TARGET_TAG not in model:  # most models are not read field by field
        return None
    return next((field.value for field in _fields(model) if field.number == _TARGET_MODEL), None)


def with_target_model(model: bytes, target: bytes) -> bytes:
    """The model with another one within, for target text.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    kept = b"".join(field.all for field in _fields(model) if field.number != _TARGET_MODEL)
    return kept + _length_field(_TARGET_MODEL, target)


def without_our_fields(model: bytes) -> bytes:
    """The model for source text alone, without fields that SentencePiece does not have.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    ours = (_TARGET_MODEL, _KNOWN_PIECES, _SEGMENTED_TEXT)
    return b"".join(field.all for field in _fields(model) if field.number not in ours)


def known_pieces(model: bytes) -> int | None:
    """How many pieces of a model, from the first, a translation model knows; None for all.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    if _KNOWN_PIECES_TAG not in model:
        return None
    return next((_varint(field.value, 0)[0] for field in _fields(model) if field.number == _KNOWN_PIECES), None)


def with_known_pieces(model: bytes, count: int) -> bytes:
    """The model with a number of pieces that a translation model knows.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    kept = b"".join(field.all for field in _fields(model) if field.number != _KNOWN_PIECES)
    return kept + _KNOWN_PIECES_TAG + _varint_bytes(count)


def reads_segmented_text(model: bytes) -> bool:
    """Whether text comes as pieces separated by spaces.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    return _SEGMENTED_TEXT_FIELD in model and any(field.number == _SEGMENTED_TEXT for field in _fields(model))


def for_segmented_text(model: bytes) -> bytes:
    """The model, marked as one whose text comes as pieces separated by spaces."""
    return model + _SEGMENTED_TEXT_FIELD


@dataclass(frozen=True)
class _Field:
    number: int
    value: bytes
    """The content of a field with a length; the bytes of a number otherwise."""
    all: bytes
    """The field as it stands in the message."""


def _fields(message: bytes) -> Iterator[_Field]:
    place = 0
    while place < len(message):
        start = place
        tag, place = _varint(message, place)
        match tag & 7:
            case wire if wire == _VARINT:
                value_start = place
                _, place = _varint(message, place)
            case wire if wire == _LENGTH:
                length, value_start = _varint(message, place)
                place = value_start + length
            case wire if wire in (_FOUR_BYTES, _EIGHT_BYTES):
                value_start = place
                place += 4 if wire == _FOUR_BYTES else 8
            case _:
                raise ValueError("not a message of Protocol Buffers")
        if place > len(message):
            raise ValueError("the message is cut off")
        yield _Field(tag >> 3, message[value_start:place], message[start:place])


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            break
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("the message is cut off")


def _length_field(number: int, value: bytes) -> bytes:
    return _varint_bytes(number << 3 | _LENGTH) + _varint_bytes(len(value)) + value


def _piece(message: bytes) -> Piece:
    text, score, kind = "", 0.0, PieceKind.NORMAL
    for field in _fields(message):
        if field.number == _TEXT:
            text = field.value.decode()
        elif field.number == _SCORE:
            if len(field.value) != _SCORE_BYTES:
                raise ValueError("a score is no number of 4 bytes")
            [score] = struct.unpack("<f", field.value)
        elif field.number == _KIND:
            kind = PieceKind(_varint(field.value, 0)[0])
    return Piece(text, score, kind)


def _serialised(piece: Piece) -> bytes:
    text = _length_field(_TEXT, piece.text.encode())
    score = _varint_bytes(_SCORE << 3 | _FOUR_BYTES) + struct.pack("<f", piece.score)
    kind = b"" if piece.kind is PieceKind.NORMAL else _varint_bytes(_KIND << 3 | _VARINT) + _varint_bytes(piece.kind)
    return text + score + kind
