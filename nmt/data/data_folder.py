"""The names of the files in a data set's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DataFolder:
    """A folder with ``{train,valid,test}.LANGUAGE``, and the files made from them."""

    path: Path

    @property
    def manifest(self) -> Path:
        """Sources, filters, counts and checksums of the data set."""
        return self.path / "manifest.json"

    @property
    def vocab(self) -> Path:
        """The SentencePiece model."""
        return self.path / "vocab.model"

    @property
    def pieces(self) -> Path:
        """The pieces of the vocabulary, one per line, for readers."""
        return self.path / "vocab.txt"

    @property
    def shards(self) -> Path:
        """The folder of the encoded text."""
        return self.path / "shards"

    def text(self, split: str, language: str) -> Path:
        """One side of a split, one sentence per line."""
        return self.path / f"{split}.{language}"
