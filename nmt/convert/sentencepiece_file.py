"""The file of a SentencePiece model, a message of Protocol Buffers, with pieces that are not used.

SentencePiece has no call for that, and its own module for these messages works only with one recent runtime of Protocol
Buffers. Of a field that a message holds twice, the last one counts: a piece is changed by one more field at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_PIECE, _SELF_TEST = 1, 4  # ModelProto.pieces, .self_test_data
_TEXT, _KIND = 1, 3  # ModelProto.SentencePiece.piece, .type
_NORMAL, _UNUSED = 1, 5  # ModelProto.SentencePiece.Type
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


def with_used_pieces(model: bytes, is_used: Callable[[str], bool]) -> bytes:
    """The model, which segments text by those ordinary pieces alone that ``is_used`` accepts.

    Raises:
        ValueError: the bytes are not a SentencePiece model.
    """
    changed, is_changed = bytearray(), False
    for number, value, whole in _fields(model):
        if number == _PIECE:
            fields = {field: content for field, content, _ in _fields(value)}
            kind = fields.get(_KIND, bytes([_NORMAL]))[0]
            wanted = _NORMAL if is_used(fields[_TEXT].decode()) else _UNUSED
            if kind in (_NORMAL, _UNUSED) and kind != wanted:
                is_changed, whole = True, _length_field(_PIECE, value + bytes([_KIND << 3 | _VARINT, wanted]))
        # The examples that the model tests itself with when it is loaded may need pieces that are not used.
        if number != _SELF_TEST:
            changed += whole
    return bytes(changed) if is_changed else model


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The number of each field of a message, its content, and the field as it stands in the message."""
    place = 0
    while place < len(message):
        start = place
        tag, place = _varint(message, place)
        value_start, wire = place, tag & 7
        if wire == _VARINT:
            _, place = _varint(message, place)
        elif wire == _LENGTH:
            length, value_start = _varint(message, place)
            place = value_start + length
        elif wire in (_FOUR_BYTES, _EIGHT_BYTES):
            place += 4 if wire == _FOUR_BYTES else 8
        else:
            raise ValueError("not a message of Protocol Buffers")
        if place > len(message):
            raise ValueError("the message is cut off")
        yield tag >> 3, message[value_start:place], message[start:place]


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    value = 0
    for shift, byte in zip(range(0, 70, 7), message[place : place + 10], strict=False):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + shift // 7 + 1
    raise ValueError("the message is cut off")


def _length_field(number: int, value: bytes) -> bytes:
    encoded, length = bytearray([number << 3 | _LENGTH]), len(value)
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*encoded, length]) + value
