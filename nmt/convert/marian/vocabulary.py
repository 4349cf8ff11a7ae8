"""Marian's vocabularies: YAML from piece to id, one piece per line, or a SentencePiece model.

The YAML is read line by line: YAML libraries drop pieces that look like other values, or hold control characters.
"""

from __future__ import annotations

import re
from pathlib import Path

from nmt.convert.files import read_bytes
from nmt.convert.foreign import ForeignVocabulary
from nmt.convert.segmenters import model_pieces, read_segmenter
from nmt.errors import VocabularyError

EOS, UNK = "</s>", "<unk>"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_NAMED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", "N": "\x85",
    "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip


def read_vocabulary(path: Path, segmenter: bytes | None) -> ForeignVocabulary:
    """Read the vocabulary of one side.

    Args:
        segmenter: the SentencePiece model that segments this side's text. A vocabulary that is a SentencePiece model
            segments by itself.

    Raises:
        CheckpointError: the file cannot be read.
        VocabularyError: it is not a vocabulary.
    """
    try:
        if path.suffix == ".spm":
            segmenter = read_segmenter(path)
            pieces = model_pieces(segmenter)
        elif path.suffix in (".yml", ".yaml"):
            pieces = read_yaml_pieces(read_bytes(path).decode(), str(path))
        else:
            pieces = read_bytes(path).decode().removesuffix("\n").split("\n")
    except ValueError:
        raise VocabularyError(f"{path}: is not a vocabulary of Marian (.yml, .spm, or one piece per line).") from None
    missing = [piece for piece in (EOS, UNK) if piece not in pieces]
    if missing:
        raise VocabularyError(f"{path}: lacks {' and '.join(missing)}: is it a vocabulary of Marian?")
    return ForeignVocabulary(tuple(pieces), unk=UNK, eos=EOS, segmenter=segmenter)


def read_yaml_pieces(text: str, name: str) -> list[str]:
    """The pieces of a YAML vocabulary, by id.

    Raises:
        VocabularyError: a line is not a piece and its id, or the ids are not 0, 1, 2, …
    """
    pieces: dict[int, str] = {}
    long_key = None
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip() or line in ("---", "...") or line.startswith("#"):
            continue
        if line.startswith("? "):
            long_key = line[2:]
            continue
        key, separator, value = (long_key, ":", line[1:]) if long_key is not None else line.rpartition(":")
        long_key = None
        if not separator or not value.strip().isdecimal():
            raise VocabularyError(f"{name}, line {number}: expected a piece and its id, got {line[:60]!r}.")
        index = int(value)
        if index in pieces:
            raise VocabularyError(f"{name}, line {number}: the id {index} has a piece already, {pieces[index]!r}.")
        pieces[index] = _unquoted(key.strip(" "))
    if sorted(pieces) != list(range(len(pieces))):
        missing = next(index for index in range(len(pieces)) if index not in pieces)
        raise VocabularyError(f"{name}: no piece has the id {missing}, though there are {len(pieces):,} pieces.")
    return [pieces[index] for index in range(len(pieces))]


def _unquoted(key: str) -> str:
    if len(key) >= 2 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    match = _QUOTED.fullmatch(key)
    return key if match is None else _ESCAPE.sub(_character, match[1])


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _NAMED.get(match[4], match[4])


def write_yaml_pieces(pieces: list[str]) -> str:
    """A YAML vocabulary, as Marian reads it."""
    return "".join(f"{_quoted(piece)}: {index}\n" for index, piece in enumerate(pieces))


def _quoted(piece: str) -> str:
    escaped = piece.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else "\\U" + f"{ord(c):08X}" for c in escaped) + '"'
