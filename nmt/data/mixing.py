"""Several data sets mixed by weight: each pair of a corpus of weight w comes w times per epoch on average."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices
from nmt.data.data_folder import DataFolder
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import Side
from nmt.data.shards import ParallelShards
from nmt.errors import ConfigError, DataError
from nmt.text.languages import primary_language

_LINES_WITH_LANGUAGE = 1_000
"""So many lines, spread evenly, are looked at for the piece of a language."""


class MixedShards:
    """The pairs of several corpora, concatenated and numbered from 0."""

    def __init__(self, parts: Sequence[ParallelShards]) -> None:
        self.parts = tuple(parts)
        self._starts = np.array([0, *accumulate(len(part) for part in parts)], dtype=np.int64)
        self.source_lengths: NDArray[np.int32] = np.concatenate([part.source_lengths for part in parts])
        """Pieces of each source, without eos."""
        self.target_lengths: NDArray[np.int32] = np.concatenate([part.target_lengths for part in parts])
        """Pieces of each target, without bos and eos."""

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def sizes(self) -> list[int]:
        """The number of pairs of each corpus."""
        return [len(part) for part in self.parts]

    def tokens(self, side: Side, pairs: Indices) -> NDArray[Any]:
        """The pieces of one side of some pairs, concatenated in the order of ``pairs``."""
        lengths = (self.source_lengths if side == "source" else self.target_lengths)[pairs]
        # All corpora share one vocabulary, so their tokens have the same type.
        return self._gathered(pairs, lengths, lambda part, own: part.tokens(side, own))

    def alignments(self, pairs: Indices) -> NDArray[np.uint16] | None:
        """As :meth:`~nmt.data.shards.PairSource.alignments`: None if the pairs of a corpus are not aligned."""
        if not all(part.index.is_aligned for part in self.parts):
            return None
        return self._gathered(pairs, self.target_lengths[pairs], lambda part, own: cast(Any, part.alignments(own)))

    def _gathered(
        self, pairs: Indices, lengths: Indices, read: Callable[[ParallelShards, Indices], NDArray[Any]]
    ) -> NDArray[Any]:
        """What is read of the pairs of each corpus, in the order of ``pairs``, of which each has ``lengths`` values."""
        owners = np.searchsorted(self._starts, pairs, side="right") - 1
        values = np.empty(int(lengths.sum()), dtype=read(self.parts[0], pairs[:0]).dtype)
        for owner in np.unique(owners):
            is_own = owners == owner
            own_pairs = pairs[is_own].astype(np.int64) - self._starts[owner]
            values[np.repeat(is_own, lengths)] = read(self.parts[owner], own_pairs)
        return values


def mixture(data: Sequence[Path], opened: Sequence[ParallelShards]) -> ParallelShards | MixedShards:
    """The shards of data sets of one vocabulary as one corpus. :func:`epoch_population` applies their weights.

    Raises:
        DataError: the source text of two was normalised differently, or nothing tells the target languages apart.
    """
    _check_target_languages(data, opened)
    first, *others = (shards.index.steps for shards in opened)
    for folder, other in zip(data[1:], others, strict=True):
        # Text may be composed already, so that composing it counts for nothing.
        if other.composed(source=True, target=True) != first.composed(source=True, target=True):
            raise DataError(
                f"{folder}: its source text was prepared otherwise ({other.words}) than that of {data[0]} "
                f"({first.words}). To mix them, run `nmt build-vocab --data {folder} --vocab "
                f"{DataFolder(data[0]).vocab} --source-normalization {first.rule}`."
            )
    return opened[0] if len(opened) == 1 else MixedShards(opened)


def _check_target_languages(data: Sequence[Path], opened: Sequence[ParallelShards]) -> None:
    """Refuse text into several languages whose source lines do not say which one is to be written."""
    known: dict[tuple[int, ...], tuple[Path, str]] = {}
    for folder, shards in zip(data, opened, strict=True):
        language = read_manifest(folder).target_lang
        first, other = known.setdefault(_language(shards), (folder, language))
        if primary_language(language) != primary_language(other):
            raise DataError(
                f"{folder} is translated into {language}, {first} into {other}, but no piece before the source tells a "
                f"model which of the two to write. Build a vocabulary for both, which then has such pieces: "
                f"`nmt build-vocab --data {first} --data {folder}`."
            )


def _language(shards: ParallelShards) -> tuple[int, ...]:
    """The pieces that every source line begins with, behind that of the tag; none if no line names its language."""
    sample = range(0, len(shards), max(1, len(shards) // _LINES_WITH_LANGUAGE))
    sources = [shards.pair(index)[0].tolist() for index in sample]
    first, last = min(sources), max(sources)  # all others begin with what these two have in common
    common = next((place for place, piece in enumerate(first) if last[place : place + 1] != [piece]), len(first))
    return tuple(first[bool(shards.index.tag) : common])


def epoch_population(sizes: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> Indices | None:
    """The pairs of one epoch of a mixture, repeated by weight.

    Every pair of a corpus of weight 2.5 comes twice, and a random half of the pairs a third time. The random choice is
    a pure function of the seed, the epoch and the corpus's position. A share that is not a whole number of pairs is
    rounded up or down at random, so that the mean over epochs is the weight.

    Args:
        sizes: number of pairs of each corpus.
        weights: positive, one per corpus; :func:`check_weights` refuses those that leave an epoch without pairs.

    Returns:
        Indices into the mixture, in order; 4 bytes each (8 from two billion pairs on). None if every weight is 1: every
        pair comes once.
    """
    if all(weight == 1 for weight in weights):
        return None
    index_type = np.int32 if sum(sizes) <= np.iinfo(np.int32).max else np.int64
    population, start = [], 0
    for position, (size, weight) in enumerate(zip(sizes, weights, strict=True), start=1):
        # Positions count from 1: to NumPy, [seed, epoch, 0] is [seed, epoch], which is the seed of the epoch's plan.
        random = np.random.default_rng([seed, epoch, position])
        times = math.floor(weight)
        more = math.floor((weight - times) * size + random.random())
        counts = np.full(size, times, dtype=np.int64)
        counts[random.permutation(size)[:more]] += 1
        population.append(np.repeat(np.arange(start, start + size, dtype=index_type), counts))
        start += size
    return np.concatenate(population)


def check_weights(sizes: Sequence[int], weights: Sequence[float], name: str) -> None:
    """Refuse weights that may leave an epoch without pairs, whatever is drawn.

    Args:
        name: says whose weights they are.

    Raises:
        ConfigError: no corpus has a whole pair in each epoch.
    """
    if all(weight * size < 1 for size, weight in zip(sizes, weights, strict=True)):
        given = ", ".join(f"{weight:g}" for weight in weights)
        raise ConfigError(
            f"{name}: with the weights {given}, an epoch may have no pair (pairs: {', '.join(map(str, sizes))}). "
            "Raise a weight, so that it times the pairs of its data set is at least 1."
        )


def parse_weighted(text: str) -> tuple[Path, float]:
    """Parse ``DIR[:WEIGHT]``; the weight defaults to 1. If a folder has the whole text as its name, it is meant.

    Raises:
        DataError: the weight is not a positive number.
    """
    folder, colon, weight = text.rpartition(":")
    if not colon or Path(text).is_dir():
        return Path(text), 1.0
    try:
        value = float(weight)
    except ValueError:
        value = math.nan
    if not (folder and math.isfinite(value) and value > 0):
        raise DataError(
            f"{text}: is neither a folder nor FOLDER:WEIGHT. Give DIR, or DIR:WEIGHT with a positive, finite number: "
            "data/own:4 takes each pair of data/own four times per epoch, data/own:0.5 half of them once."
        )
    return Path(folder), value
