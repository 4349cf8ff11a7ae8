"""Sentences of valid and test that are in the training text of another data set of the same mixture.

They are compared by pieces: the data sets of a mixture share a vocabulary, and their shards hold the training text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices, Rows, starts_of
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import SIDES, Side
from nmt.data.shards import ParallelShards
from nmt.data.vocab_pair import VocabularyPair
from nmt.text.languages import primary_language
from nmt.text.lines import read_parallel
from nmt.text.steps import normalizer

_Hashes = NDArray[np.uint64]
_NONE: _Hashes = np.zeros(0, np.uint64)
# Pairs that are compared at once: some 20 MB.
_BLOCK = 1 << 16


def leaks(data: Sequence[Path]) -> Iterator[str]:
    """Yield a warning for each data set whose training text has sentences of valid or test of another one.

    Args:
        data: the encoded data sets of a mixture.

    Raises:
        DataError: a file of a data set cannot be read.
    """
    vocab = VocabularyPair.load(DataFolder(data[0]).vocab)
    held_out = {folder: _held_out(folder) for folder in data}
    for folder in data:
        manifest, shards = read_manifest(folder), ParallelShards.open(folder, "train")
        of_folder = vocab.prepared(shards.index.steps, manifest.choices)
        is_leaked = {other: np.zeros(pairs, np.bool_) for other, (pairs, _) in held_out.items() if other != folder}
        for side, language in zip(SIDES, (manifest.source_lang, manifest.target_lang), strict=True):
            steps = shards.index.steps
            normalize = normalizer(
                steps.after(manifest.source_text).source if side == "source" else (*manifest.target_text, *steps.target)
            )
            sentences = {
                other: of_folder.of(side).encode_rows(
                    list(map(normalize, held_out[other].lines[primary_language(language)]))
                )
                for other in is_leaked
                if primary_language(language) in held_out[other].lines
            }
            found = _in_training(shards, side, list(sentences.values()))
            for other, rows in sentences.items():
                is_leaked[other] |= np.isin(_hashes(rows), found)
        for other, leaked in is_leaked.items():
            if leaked.any():
                yield (
                    f"{folder}: its training text has a sentence of {leaked.sum():,} of the {len(leaked):,} pairs of "
                    f"valid and test of {other}, so scores on these will be too high. Prepare {folder} again with "
                    f"--apart-from {other}."
                )


class _HeldOut(NamedTuple):
    """The pairs of valid and test of a data set."""

    pairs: int
    lines: dict[str, Sequence[str]]
    """Language -> the sentences in it."""


def _held_out(folder: Path) -> _HeldOut:
    manifest = read_manifest(folder)
    languages = manifest.source_lang, manifest.target_lang
    pairs: list[tuple[str, str]] = []
    for split in ("valid", "test"):
        source, target = (DataFolder(folder).text(split, language) for language in languages)
        if source.is_file() and target.is_file():  # training needs no test set
            pairs += read_parallel(source, target)
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    return _HeldOut(len(pairs), dict(zip(map(primary_language, languages), sides, strict=True)))


def _in_training(shards: ParallelShards, side: Side, sentences: Sequence[Rows]) -> _Hashes:
    """Hashes of training sentences, with those of all that equal one of these sentences."""
    lengths = shards.source_lengths if side == "source" else shards.target_lengths
    samples = [_samples(rows.lengths, partial(_at, rows)) for rows in sentences]
    wanted = np.unique(np.concatenate([_NONE, *samples]))
    found = [_NONE]
    for start in range(0, len(shards) if len(wanted) else 0, _BLOCK):
        pairs = np.arange(start, min(start + _BLOCK, len(shards)))
        alike = pairs[np.isin(_samples(lengths[pairs], partial(shards.pieces_at, side, pairs)), wanted)]
        found.append(_hashes(Rows(shards.tokens(side, alike), lengths[alike].astype(np.int64))))
    return np.concatenate(found)


def _samples(lengths: Indices, pieces_at: Callable[[Indices], NDArray[Any]]) -> _Hashes:
    """A hash of the length of each row and of three of its pieces: few rows that differ have the same."""
    three = (pieces_at(places) for places in (np.zeros_like(lengths), lengths // 2, lengths - 1))
    columns = np.stack([lengths, *three]).astype(np.uint64)
    return np.asarray((columns * _random(len(columns))[:, None]).sum(axis=0, dtype=np.uint64))


def _at(rows: Rows, places: Indices) -> NDArray[Any]:
    """A piece of each row; an empty row has none, and gets another one's."""
    return np.asarray(np.append(rows.values, 0)[starts_of(rows.lengths) + places])


def _hashes(rows: Rows) -> _Hashes:
    """A hash of each row: the sum of its pieces, each times a random number of its place. Empty rows have 0."""
    starts = starts_of(rows.lengths)
    places = np.arange(len(rows.values)) - np.repeat(starts, rows.lengths)
    products = rows.values.astype(np.uint64) * _random(rows.lengths.max(initial=0))[places]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(products, dtype=np.uint64)])
    return np.asarray(sums[starts + rows.lengths] - sums[starts])


def _random(count: int) -> _Hashes:
    return np.random.default_rng(0).integers(1, 1 << 63, count, np.uint64)
