"""Shards: a split's pieces as flat arrays on disk, mapped into memory and read by offset.

``shards/`` holds, for each split and side, ``SPLIT.SIDE.tokens`` (uint16 or uint32) and ``SPLIT.SIDE.offsets``
(int64, one more than there are sentences), and ``index.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices, gather_rows
from nmt.data.manifest import read_manifest
from nmt.data.vocab import Vocabulary
from nmt.errors import DataError
from nmt.files import Kind
from nmt.text import NormalizationRule

SHARDS_FOLDER = "shards"
INDEX_NAME = "index.json"
SAMPLING_NAME = "sampled.json"
"""Beside shards of one epoch: what they were sampled with."""
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)
VERSION = 1

SHARDS = Kind(
    "shards",
    lambda folder: any(folder.glob("*.source.tokens")),
    is_folder=True,
    holds=(INDEX_NAME, "*.tokens", "*.offsets", SAMPLING_NAME),
)


@dataclass
class SideStatistics:
    """One side of a split."""

    words: int = 0
    pieces: int = 0
    unknown: int = 0
    longest: int = 0
    """In pieces."""
    sentences: list[int] | None = None
    """Lines of 1, 2, 3 ... sentences among those counted of the pairs in the shards; None where none were counted."""
    byte_pieces: int = 0
    """Pieces that stand for single bytes."""


@dataclass
class SplitStatistics:
    """A split as it was encoded."""

    pairs: int = 0
    too_long: int = 0
    """Pairs left out since a side has more pieces than the limit."""
    empty: int = 0
    """Pairs left out since a side has no pieces."""
    sides: dict[str, SideStatistics] = field(default_factory=lambda: {side: SideStatistics() for side in SIDES})


@dataclass(frozen=True)
class ShardIndex:
    """``index.json``."""

    version: int
    vocab_fingerprint: str
    data_fingerprint: str
    max_length: int
    dtype: str
    splits: dict[str, SplitStatistics]
    source_normalization: NormalizationRule = "identity"
    """The rule that source text goes through before it is encoded."""
    vocabulary: dict[str, Any] | None = None
    """The settings that the vocabulary was trained with; None if it was not trained on this data set."""


class PairSource(Protocol):
    """Encoded pairs, numbered from 0: what plans and batches are made of."""

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Pieces of each source, without eos."""

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Pieces of each target, without bos and eos."""

    def __len__(self) -> int: ...

    def tokens(self, side: Side, pairs: Indices) -> NDArray[Any]:
        """The pieces of one side of some pairs, one sentence after the other, in the order of ``pairs``."""


class ParallelShards:
    """The pairs of one split."""

    def __init__(
        self, index: ShardIndex, tokens: Mapping[Side, NDArray[Any]], offsets: Mapping[Side, NDArray[np.int64]]
    ) -> None:
        self.vocab_fingerprint = index.vocab_fingerprint
        self.data_fingerprint = index.data_fingerprint
        self.source_normalization = index.source_normalization
        self._tokens = tokens
        self._offsets = offsets
        self.source_lengths = np.diff(offsets["source"]).astype(np.int32)
        """Pieces of each source, without eos."""
        self.target_lengths = np.diff(offsets["target"]).astype(np.int32)
        """Pieces of each target, without bos and eos."""

    @classmethod
    def open(cls, data: Path, split: str, *, vocab: Path | None = None) -> ParallelShards:
        """Map a split of a data set.

        Args:
            vocab: what the data set must be encoded with, for errors; a new vocabulary where not given.

        Raises:
            DataError: there are no shards, or they are damaged.
        """
        index = read_index(data, vocab=vocab)
        return cls._open(data / SHARDS_FOLDER, index, split, f"Run {build_command(data, vocab)} again.")

    @classmethod
    def open_folder(cls, folder: Path, split: str) -> ParallelShards:
        """Map a split of shards that lie elsewhere than in their data set.

        Raises:
            DataError: there are no shards, or they are damaged.
        """
        remedy = "Remove the folder, so that it is made again."
        try:
            index = _read_index(folder, remedy)
        except FileNotFoundError:
            raise DataError(f"{folder}: holds no shards (no {INDEX_NAME}).") from None
        return cls._open(folder, index, split, remedy)

    @classmethod
    def _open(cls, folder: Path, index: ShardIndex, split: str, remedy: str) -> ParallelShards:
        tokens: dict[Side, NDArray[Any]] = {}
        offsets: dict[Side, NDArray[np.int64]] = {}
        for side in SIDES:
            offsets[side] = _mapped(folder / f"{split}.{side}.offsets", np.dtype(np.int64), remedy)
            tokens[side] = _mapped(folder / f"{split}.{side}.tokens", np.dtype(index.dtype), remedy)
            if len(offsets[side]) != index.splits[split].pairs + 1 or offsets[side][-1] != len(tokens[side]):
                raise DataError(f"{folder}: the shards of {split} are damaged. {remedy}")
        return cls(index, tokens, offsets)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The pieces of a source and of its target."""
        source, target = (
            self._tokens[side][self._offsets[side][index] : self._offsets[side][index + 1]] for side in SIDES
        )
        return source, target

    def tokens(self, side: Side, pairs: Indices) -> NDArray[Any]:
        """The pieces of one side of some pairs, one sentence after the other, in the order of ``pairs``."""
        starts = self._offsets[side][pairs]
        return gather_rows(self._tokens[side], starts, self._offsets[side][pairs + 1] - starts)


def _mapped(path: Path, dtype: np.dtype[Any], remedy: str) -> NDArray[Any]:
    try:
        if path.stat().st_size == 0:  # which cannot be mapped
            return np.zeros(0, dtype)
        # As a plain array over the same memory: indexing a memmap is slower.
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}). {remedy}") from None


def build_command(data: Path, vocab: Path | None = None) -> str:
    """What makes a data set's shards: with an existing vocabulary, or with one that is trained on its text."""
    if vocab is None:
        return f"`nmt build-vocab --data {data}`"
    return f"`nmt build-vocab --data {data} --vocab {vocab}`"


def read_index(data: Path, *, vocab: Path | None = None) -> ShardIndex:
    """What the shards of a data set say of themselves.

    Args:
        vocab: as for :meth:`ParallelShards.open`.

    Raises:
        DataError: there are none, or they are of another version.
    """
    try:
        return _read_index(data / SHARDS_FOLDER, f"Run {build_command(data, vocab)} again.")
    except FileNotFoundError:
        raise DataError(f"{data}: has no shards yet. Run {build_command(data, vocab)} first.") from None


def _read_index(folder: Path, remedy: str) -> ShardIndex:
    path = folder / INDEX_NAME
    try:
        values = json.loads(path.read_text("utf-8"))
        if values.get("version") != VERSION:
            raise DataError(f"{path}: is of version {values.get('version')}. {remedy}")
        splits = {name: _read_statistics(split) for name, split in values["splits"].items()}
        return ShardIndex(**(values | {"splits": splits}))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{path}: is damaged. {remedy}") from None


def _read_statistics(values: dict[str, Any]) -> SplitStatistics:
    sides = {side: SideStatistics(**statistics) for side, statistics in values["sides"].items()}
    return SplitStatistics(**(values | {"sides": sides}))


def are_current(
    data: Path, vocab: Vocabulary, max_length: int, source_normalization: NormalizationRule = "identity"
) -> bool:
    """Whether a data set's shards are made from its present text, with this vocabulary, limit and rule.

    Shards of a version that did not count sentences are good to train with, but not current.
    """
    try:
        index = read_index(data)
        for split in index.splits:
            ParallelShards.open(data, split)
    except DataError:
        return False
    if any(side.sentences is None for side in index.splits["train"].sides.values()):
        return False
    expected = (vocab.fingerprint, read_manifest(data).fingerprint, max_length, source_normalization)
    found = (index.vocab_fingerprint, index.data_fingerprint, index.max_length, index.source_normalization)
    return found == expected
