"""From prepared text to vocabulary and shards: what ``nmt build-vocab`` does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nmt.data.derived import VOCAB_NAME, check_derived_replaceable
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.shards import SIDES, ShardIndex, are_current, read_index, write_shards
from nmt.data.vocab import ModelType, TrainedVocabulary, Vocabulary, default_size, sample, train_vocabulary
from nmt.errors import VocabularyError
from nmt.text import read_lines

SAMPLE_LINES = 2_000_000
"""Of each side, at most, that a vocabulary is trained on: more changes little and costs memory."""


@dataclass(frozen=True)
class BuiltVocabulary:
    """A data set's vocabulary and shards."""

    vocab: Vocabulary
    index: ShardIndex
    trained: TrainedVocabulary | None
    """None where an existing vocabulary was used."""
    changed: bool
    """False where all was there already."""


def build_vocabulary(
    data: Path,
    *,
    size: int | None = None,
    model_type: ModelType = "bpe",
    existing: Path | None = None,
    character_coverage: float = 1.0,
    normalization: str = "nmt_nfkc",
    max_length: int = 256,
    threads: int | None = None,
) -> BuiltVocabulary:
    """Train a vocabulary on a data set's training text, or take an existing one, and encode train and valid with it.

    Args:
        size: pieces; chosen by the recipe or the size of the corpus where not given.
        existing: a SentencePiece model to encode with.
        threads: all cores if not given.

    Raises:
        DataError: the data set is not there, or cannot be read.
        VocabularyError: no vocabulary can be trained, or the existing one does not suit.
        OutputError: the data set's folder holds a vocabulary or shards that are not this program's.
    """
    manifest = read_manifest(data)
    trained = None
    if existing is not None:
        vocab = Vocabulary.load(existing)
        check_derived_replaceable(data, vocab=vocab)
    else:
        check_derived_replaceable(data)
        trained = _train(data, manifest, size, model_type, character_coverage, normalization)
        vocab = trained.vocab
    path = data / VOCAB_NAME
    is_same = path.is_file() and path.read_bytes() == vocab.model_bytes
    if is_same and are_current(data, vocab, max_length):
        return BuiltVocabulary(vocab, read_index(data), trained, changed=False)
    # The vocabulary first: shards that do not match it are refused, so a crash in between is noticed, not trained on.
    vocab.save(path)
    index = write_shards(data, vocab, max_length=max_length, threads=threads or os.cpu_count() or 1)
    return BuiltVocabulary(vocab, index, trained, changed=True)


def _train(
    data: Path, manifest: Manifest, size: int | None, model_type: ModelType, coverage: float, normalization: str
) -> TrainedVocabulary:
    names = [f"train.{language}" for language in (manifest.source_lang, manifest.target_lang)]
    pairs = manifest.files[names[0]].lines

    def lines() -> Iterator[str]:
        for name in names:
            yield from sample(read_lines(data / name), pairs, SAMPLE_LINES)

    chosen = size or manifest.recipe.get("vocab_size") or default_size(pairs)
    if not isinstance(chosen, int):
        raise VocabularyError(f"{data}: the recipe's vocab_size is {chosen!r}, not a number.")
    return train_vocabulary(
        lines(),
        size=chosen,
        model_type=model_type,
        character_coverage=coverage,
        normalization=normalization,
    )


def warnings(built: BuiltVocabulary) -> list[str]:
    """What looks wrong in a vocabulary's figures."""
    found = []
    train = built.index.splits["train"]
    for side in SIDES:
        statistics = train.sides[side]
        if statistics.pieces and statistics.unknown / statistics.pieces > 0.001:
            share = statistics.unknown / statistics.pieces
            found.append(f"{share:.2%} of the {side} pieces are unknown: is this the vocabulary of this text?")
        if statistics.words and statistics.pieces / statistics.words > 3:
            found.append(
                f"{statistics.pieces / statistics.words:.1f} pieces a {side} word: the vocabulary is small for this "
                "text, or of another language."
            )
    total = train.pairs + train.too_long + train.empty
    if total and train.too_long / total > 0.01:
        found.append(f"{train.too_long:,} of {total:,} training pairs are longer than {built.index.max_length} pieces.")
    return found
