"""Marian's vocabularies: YAML or JSON from piece to id, one piece per line, or a SentencePiece model.

The YAML is read line by line: YAML libraries drop pieces that look like other values, or hold control characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from nmt.convert.files import read_bytes, shown
from nmt.convert.foreign import ForeignVocabulary
from nmt.convert.segmenters import check_distinct, model_pieces, pieces_by_id, read_segmenter
from nmt.errors import VocabularyError

EOS, UNK = "</s>", "<unk>"
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|.*?)(?<![ \t])[ \t]*:[ \t]*([0-9]+)[ \t]*(?:[ \t]#.*)?""")
"""A piece and its id, and a comment. The piece is in quotes, or may hold any of these characters."""
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_NAMED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b", "N": "\x85",
    "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip


def read_vocabulary(path: Path, segmenter: bytes | None, codes: str | None = None) -> ForeignVocabulary:
    """Read the vocabulary of one side.

    Args:
        segmenter: the SentencePiece model that segments this side's text. A vocabulary that is a SentencePiece model
            segments by itself.
        codes: the merges that split the words of this side's text, where no SentencePiece model does.

    Raises:
        CheckpointError: the file cannot be read.
        VocabularyError: it is not a vocabulary.
    """
    try:
        if path.suffix == ".spm":
            segmenter = read_segmenter(path)
            pieces = model_pieces(segmenter)
        elif path.suffix in (".yml", ".yaml", ".json"):
            pieces = read_yaml_pieces(read_bytes(path).decode(), str(path))
        else:
            pieces = [line.removesuffix("\r") for line in read_bytes(path).decode().removesuffix("\n").split("\n")]
            check_distinct(pieces, str(path))
    except (ValueError, RecursionError):
        raise VocabularyError(
            f"{path}: is not a vocabulary of Marian (.yml, .json, .spm, or one piece per line)."
        ) from None
    missing = [piece for piece in (EOS, UNK) if piece not in pieces]
    if missing:
        raise VocabularyError(f"{path}: lacks {' and '.join(missing)}: is it a vocabulary of Marian?")
    return ForeignVocabulary(tuple(pieces), unk=UNK, eos=EOS, segmenter=segmenter, codes=None if segmenter else codes)


def read_yaml_pieces(text: str, name: str) -> list[str]:
    """The pieces of a vocabulary in YAML or JSON, by id.

    Raises:
        VocabularyError: a line is not a piece and its id, a piece is there twice, or the ids are not 0, 1, 2, …
    """
    is_json = text.lstrip().startswith("{")
    ids: dict[str, int] = {}
    for piece, index in json.loads(text, object_pairs_hook=list) if is_json else _yaml_pieces(text, name):
        if piece in ids:
            raise VocabularyError(
                f"{name}: the piece '{shown(piece)}' has the id {ids[piece]} already, and Marian reads that one. Give "
                f"the piece with the id {index} another name in the file."
            )
        ids[piece] = index
    return pieces_by_id(ids, name)


def _yaml_pieces(text: str, name: str) -> Iterator[tuple[str, int]]:
    long_key = None
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip(" \r")
        if not line or line in ("---", "...") or line.startswith(("#", "%YAML ", "%TAG ")):
            continue
        if line.startswith("? "):
            long_key = line[2:]
            continue
        match = _LINE.fullmatch((long_key or "") + line)
        long_key = None
        if match is None:
            raise VocabularyError(f"{name}, line {number}: expected a piece and its id, got {line[:60]!r}.")
        yield _unquoted(match[1]), int(match[2])


def _unquoted(key: str) -> str:
    if len(key) >= 2 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    match = _QUOTED.fullmatch(key)
    text = key if match is None else _ESCAPE.sub(_character, match[1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16")  # two halves of a pair are one character


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _NAMED.get(match[4], match[4])
