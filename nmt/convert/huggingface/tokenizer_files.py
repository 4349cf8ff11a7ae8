"""The vocabularies of MarianTokenizer: vocab.json, target_vocab.json, and the SentencePiece models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.convert.given import Given
from nmt.convert.json_files import read_json
from nmt.convert.segmenters import read_segmenter
from nmt.data.vocab import SPECIAL_PIECES
from nmt.errors import CheckpointError, VocabularyError

VOCAB, TARGET_VOCAB, CONFIG = "vocab.json", "target_vocab.json", "tokenizer_config.json"
SEGMENTERS = {"source": "source.spm", "target": "target.spm"}
UNK = "<unk>"
_DEFAULTS = {"unk_token": UNK, "eos_token": "</s>", "pad_token": "<pad>"}


@dataclass(frozen=True)
class TokenizerFiles:
    """What the files of a MarianTokenizer say."""

    source: tuple[str, ...]
    """Pieces by id."""
    target: tuple[str, ...]
    segmenters: tuple[bytes, bytes]
    """The SentencePiece models of source and target text."""
    eos: str
    pad: str
    settings: Mapping[str, Any]
    """tokenizer_config.json; empty if there is none."""
    files: tuple[Path, ...]


def read_tokenizer(folder: Path, given: Given) -> TokenizerFiles:
    """Read the files of a MarianTokenizer.

    Raises:
        CheckpointError: a file is missing or damaged.
        VocabularyError: a vocabulary is damaged, or has something that ours cannot express.
    """
    settings = read_json(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    special = {key: _token(settings, key, folder / CONFIG) for key in _DEFAULTS}
    if special["unk_token"] != UNK:
        raise VocabularyError(f"{folder / CONFIG}: has unk_token {special['unk_token']!r}, but nmt reads only {UNK}.")
    is_separate = settings.get("separate_vocabs", False) is True
    paths = [folder / VOCAB, folder / TARGET_VOCAB] if is_separate else [folder / VOCAB]
    vocabularies = [_pieces(path, special) for path in paths]
    models = [given.source_spm or folder / SEGMENTERS["source"], given.target_spm or folder / SEGMENTERS["target"]]
    found = [*paths, *models]
    return TokenizerFiles(
        vocabularies[0],
        vocabularies[-1],
        (_segmenter(models[0]), _segmenter(models[1])),
        special["eos_token"],
        special["pad_token"],
        settings,
        (*found, folder / CONFIG) if settings else tuple(found),
    )


def _token(settings: Mapping[str, Any], key: str, path: Path) -> str:
    """A special piece: a string, or a mapping with its content."""
    value = settings.get(key, _DEFAULTS[key])
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, str):
        raise VocabularyError(f"{path}: {key} is not text. Copy the model again.")
    return value


def _pieces(path: Path, special: Mapping[str, str]) -> tuple[str, ...]:
    """The pieces of a vocabulary, by id."""
    ids = read_json(path)
    pieces: dict[int, str] = {}
    for piece, index in ids.items():
        if type(index) is not int or index in pieces or not 0 <= index < len(ids):
            raise VocabularyError(
                f"{path}: the id of {piece[:40]!r} is {ascii(index)[:20]}; the ids of {len(ids):,} pieces must be 0 to "
                f"{len(ids) - 1:,}, each once. Copy the model again."
            )
        if not _is_text(piece):
            raise VocabularyError(f"{path}: the piece with id {index} is not text. Copy the model again.")
        pieces[index] = piece
    missing = [token for token in special.values() if token not in ids]
    if missing:
        raise VocabularyError(
            f"{path}: lacks {', '.join(map(ascii, missing))}: is it the vocabulary of a MarianTokenizer?"
        )
    return tuple(pieces[index] for index in range(len(pieces)))


def renamed(pieces: tuple[str, ...], special: set[str]) -> tuple[str, ...]:
    """The pieces; an ordinary one that is named as one of our special pieces gets an apostrophe."""
    clashing = set(SPECIAL_PIECES) - special
    return tuple(f"{piece}'" if piece in clashing else piece for piece in pieces)


def _is_text(piece: str) -> bool:
    try:
        return bool(piece.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def _segmenter(path: Path) -> bytes:
    if not path.is_file():
        raise CheckpointError(f"{path}: is missing. A MarianTokenizer needs {' and '.join(SEGMENTERS.values())}.")
    return read_segmenter(path)
