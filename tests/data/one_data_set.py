"""Shards of a single data set, with the defaults of ``nmt build-vocab``."""

from __future__ import annotations

from pathlib import Path

from nmt.data.encoded_text import examine_text
from nmt.data.manifest import read_manifest
from nmt.data.shard_writing import write_shards_together
from nmt.data.shards import ENCODED_SPLITS, ShardIndex
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.text import NormalizationRule


def write_shards(
    data: Path,
    vocab: Vocabulary | VocabularyPair,
    *,
    max_length: int = 256,
    threads: int | None = None,
    source_normalization: NormalizationRule = "identity",
) -> ShardIndex:
    """Encode train and valid of a data set."""
    [index] = write_shards_together(
        {data: examine_text(data, read_manifest(data), ENCODED_SPLITS)},
        vocab if isinstance(vocab, VocabularyPair) else VocabularyPair.shared(vocab),
        max_length=max_length,
        threads=threads,
        source_normalization=source_normalization,
        vocabulary=None,
        once_complete=lambda: None,
    )
    return index
