"""The names of the files in a data set's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nmt.inside import Inside


@dataclass(frozen=True)
class DataFolder:
    """A folder with ``{train,valid,test}.LANGUAGE``, and the files made from them."""

    path: Path

    manifest = Inside("manifest.json")
    """Sources, filters, counts and checksums of the data set."""
    vocab = Inside("vocab.model")
    """The SentencePiece model."""
    pieces = Inside("vocab.txt")
    """The pieces of the vocabulary, one per line, for readers."""
    vocab_record = Inside("vocab.json")
    """What the vocabulary was trained on, and the checksums of its files."""
    shards = Inside("shards")
    """The folder of the encoded text."""

    def text(self, split: str, language: str) -> Path:
        """One side of a split, one sentence per line."""
        return self.path / f"{split}.{language}"
