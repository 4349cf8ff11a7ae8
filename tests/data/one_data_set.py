"""Vocabulary and shards of a single data set, with the defaults of ``nmt build-vocab``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nmt.data.build import BuiltVocabulary
from nmt.data.build import build_vocabulary as build_vocabularies
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import examine_text
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import ENCODED_SPLITS, SHARDS, ShardIndex, known_index
from nmt.data.shard_writing import Encoding, replacing_shards
from nmt.data.shards import is_current
from nmt.data.vocab import Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.data.vocab_record import VocabularySettings
from nmt.io.files import locked_folders
from nmt.text.lines import NormalizationRule
from nmt.text.steps import TextSteps

SOURCE = ["one two", "three", "one two three four five six", "two"]
TARGET = ["eins zwei", "drei", "eins zwei drei", "zwei"]
_ARGUMENTS = ("existing", "check_unused", "max_pieces", "aligns", "threads", "notify")


def build_vocabulary(data: Path, **options: Any) -> BuiltVocabulary:
    """Build the vocabulary of one data set.

    Args:
        options: the settings of a vocabulary, and other arguments.
    """
    arguments = {name: options.pop(name) for name in _ARGUMENTS if name in options}
    [built] = build_vocabularies([data], VocabularySettings(**options), **arguments)
    return built


def write_shards(
    data: Path,
    vocab: Vocabulary | VocabularyPair,
    *,
    max_pieces: int = 256,
    threads: int = 1,
    source_normalization: NormalizationRule = "identity",
) -> ShardIndex:
    """Encode train and valid of a data set."""
    encoding = Encoding(_pair(vocab), max_pieces, TextSteps().with_rule(source_normalization), threads)
    text = examine_text(data, read_manifest(data), ENCODED_SPLITS)
    with (
        locked_folders([DataFolder(data).shards], SHARDS) as locked,
        replacing_shards({data: text}, encoding, locked) as [index],
    ):
        pass
    return index


def are_current(
    data: Path,
    vocab: Vocabulary | VocabularyPair,
    max_pieces: int = 256,
    source_normalization: NormalizationRule = "identity",
) -> bool:
    """Whether a data set's shards are undamaged and were made from its text with these settings."""
    index, manifest = known_index(data), read_manifest(data)
    inputs = Encoding(_pair(vocab), max_pieces, TextSteps().with_rule(source_normalization)).inputs(
        manifest, examine_text(data, manifest, ENCODED_SPLITS)
    )
    return index is not None and is_current(data, index, inputs)


def _pair(vocab: Vocabulary | VocabularyPair) -> VocabularyPair:
    return vocab if isinstance(vocab, VocabularyPair) else VocabularyPair.shared(vocab)
