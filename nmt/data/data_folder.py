"""The names of the files in a data set's folder, and those of a vocabulary."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from nmt.io.inside import Inside
from nmt.io.regular import read_regular


@dataclass(frozen=True)
class DataFolder:
    """A folder with ``{train,valid,test}.LANGUAGE``, and the files made from them."""

    path: Path

    manifest = Inside("manifest.json")
    """Sources, filters, counts and checksums of the data set."""
    vocab = Inside("vocab.model")
    """The SentencePiece model; :func:`vocabulary_files` may lie beside it."""
    pieces = Inside("vocab.txt")
    """The pieces of the vocabulary, one per line, for readers."""
    vocab_record = Inside("vocab.json")
    """What the vocabulary was trained on, and the checksums of its files."""
    shards = Inside("shards")
    """The folder of the encoded text."""

    def text(self, split: str, language: str) -> Path:
        """One side of a split, one sentence per line."""
        return self.path / f"{split}.{language}"

    @property
    def vocabulary(self) -> tuple[Path, ...]:
        """All files that the vocabulary may have: those that are read, and the lists of pieces for readers."""
        files = vocabulary_files(self.vocab)
        return (*files, *(list_of(file) for file in files if file.suffix == self.vocab.suffix))


def vocabulary_files(model: Path) -> tuple[Path, ...]:
    """The files that a vocabulary may have: its SentencePiece model, and others that lie beside it.

    Beside ``vocab.model``, imported models have ``vocab.pieces.json``, a list of pieces by id. If target text has a
    vocabulary of its own, its files are ``vocab.target.model`` and ``vocab.target.pieces.json``. A model whose name has
    no ``.model``, such as a pipe, has no others.
    """
    endings = (".model", ".pieces.json", ".target.model", ".target.pieces.json")
    names = dict.fromkeys(model.name.replace(".model", ending, 1) for ending in endings)
    return tuple(map(model.with_name, names))


def list_of(model: Path) -> Path:
    """The list of a model's pieces for readers, beside it."""
    return model.with_suffix(".txt")


def vocabulary_fingerprint(model: Path) -> str:
    """The fingerprint of the vocabulary in files: sha256 of their bytes, one file after the other.

    Raises:
        OSError: a file cannot be read.
    """
    first, *others = vocabulary_files(model)
    contents = (read_regular(file) for file in (first, *(file for file in others if file.is_file())))
    return hashlib.sha256(b"".join(contents)).hexdigest()
