"""Shards: a split's pieces as flat arrays on disk, mapped into memory and read by offset.

``shards/`` holds ``index.json`` (``shard_index.py``) and, for each split and side, ``SPLIT.SIDE.tokens`` (uint16 or
uint32) and ``SPLIT.SIDE.offsets`` (int64, sentences + 1).

Checks for damage (``shard_checks.py``): opening reads the index and all offsets, and samples the tokens; each batch
checks its own tokens; ``nmt build-vocab`` reads every file before it reports shards as up to date.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices, gather_rows
from nmt.data.data_folder import DataFolder
from nmt.data.shard_checks import Damage, check_lengths, check_sample, check_tokens, file_names, mapped
from nmt.data.shard_index import (
    ALIGNMENTS,
    ENCODED_SPLITS,
    INDEX_NAME,
    REMEDY,
    SIDES,
    ShardIndex,
    ShardInputs,
    Side,
    build_command,
    read_folder_index,
    read_index,
)
from nmt.errors import DataError


class PairSource(Protocol):
    """Encoded pairs, numbered from 0, from which plans and batches are made."""

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Pieces of each source, without eos."""

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Pieces of each target, without bos and eos."""

    def __len__(self) -> int: ...

    def tokens(self, side: Side, pairs: Indices) -> NDArray[Any]:
        """The pieces of one side of some pairs, concatenated in the order of ``pairs``."""

    def alignments(self, pairs: Indices) -> NDArray[np.uint16] | None:
        """For each of their target pieces, the number of the source piece that it comes from, from 1; 0 for none.

        None if the pairs are not aligned.
        """


class ParallelShards:
    """The encoded pairs of one split."""

    def __init__(
        self,
        index: ShardIndex,
        tokens: Mapping[Side, NDArray[Any]],
        offsets: Mapping[Side, NDArray[np.int64]],
        alignments: NDArray[np.uint16] | None = None,
        *,
        name: str = "shards",
        remedy: str = "",
    ) -> None:
        """Use arrays in memory or mapped arrays.

        Args:
            name: where the arrays come from, for errors.
            remedy: how to make the arrays again, for errors.
        """
        self.index = index
        """Of all splits."""
        self._tokens = tokens
        self._offsets = offsets
        self._alignments = alignments
        self._name, self._remedy = name, remedy
        self.source_lengths = np.diff(offsets["source"]).astype(np.int32)
        """Pieces of each source, without eos."""
        self.target_lengths = np.diff(offsets["target"]).astype(np.int32)
        """Pieces of each target, without bos and eos."""

    @classmethod
    def open(cls, data: Path, split: str, *, vocab: Path | None = None) -> ParallelShards:
        """Map a split of a data set.

        Args:
            vocab: the vocabulary to encode with, for the command in errors; if None, the command trains a new one.

        Raises:
            DataError: there are no shards, or they are damaged.
        """
        index = read_index(data, vocab=vocab)
        return cls.of(DataFolder(data).shards, index, split, f"Run {build_command(data, vocab)} again.")

    @classmethod
    def open_folder(cls, folder: Path, split: str) -> ParallelShards:
        """Map a split of shards in any folder.

        Raises:
            DataError: there are no shards, or they are damaged.
        """
        return cls.of(folder, read_folder_index(folder), split, REMEDY)

    @classmethod
    def of(cls, folder: Path, index: ShardIndex, split: str, remedy: str = "") -> ParallelShards:
        """Map a split of the shards in a folder, whose index has been read.

        Args:
            remedy: how to make the shards again, for errors.

        Raises:
            DataError: the shards are damaged.
        """
        if split not in index.splits:
            raise DataError(f"{folder / INDEX_NAME}: is damaged: it names no split {split}. {remedy}")
        pairs = index.splits[split].pairs
        tokens: dict[Side, NDArray[Any]] = {}
        offsets: dict[Side, NDArray[np.int64]] = {}
        try:
            for side in SIDES:
                tokens_path, offsets_path = (folder / name for name in file_names(split, side))
                offsets[side] = mapped(offsets_path, np.dtype(np.int64), pairs + 1)
                check_lengths(offsets_path, offsets[side], index.max_pieces)
                tokens[side] = mapped(tokens_path, np.dtype(index.dtype), int(offsets[side][-1]))
                check_sample(tokens_path, tokens[side], index.vocab_size)
            alignments = None
            if index.is_aligned and split == "train":
                alignments = mapped(folder / ALIGNMENTS, np.dtype(np.uint16), int(offsets["target"][-1]))
        except Damage as damage:
            raise DataError(f"{damage} {remedy}") from None
        return cls(index, tokens, offsets, alignments, name=str(folder / split), remedy=remedy)

    def __len__(self) -> int:
        return len(self.source_lengths)

    @property
    def sizes(self) -> list[int]:
        """The number of pairs of each corpus, as of a mixture: of the only one."""
        return [len(self)]

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The pieces of a source and of its target."""
        source, target = (
            self._tokens[side][self._offsets[side][index] : self._offsets[side][index + 1]] for side in SIDES
        )
        return source, target

    def pieces_at(self, side: Side, pairs: Indices, places: Indices) -> NDArray[Any]:
        """One piece of one side of each of some pairs, by its place from 0."""
        return np.asarray(self._tokens[side][self._offsets[side][pairs] + places])

    def tokens(self, side: Side, pairs: Indices) -> NDArray[Any]:
        """The pieces of one side of some pairs, concatenated in the order of ``pairs``.

        Raises:
            DataError: the file is damaged: it holds numbers that are not ids of pieces.
        """
        starts = self._offsets[side][pairs]
        gathered = gather_rows(self._tokens[side], starts, self._offsets[side][pairs + 1] - starts)
        try:
            check_tokens(Path(f"{self._name}.{side}.tokens"), gathered, self.index.vocab_size)
        except Damage as damage:
            raise DataError(f"{damage} {self._remedy}") from None
        return gathered

    def alignments(self, pairs: Indices) -> NDArray[np.uint16] | None:
        """As :meth:`PairSource.alignments`.

        Raises:
            DataError: the file is damaged: it names a piece that the source does not have.
        """
        if self._alignments is None:
            return None
        lengths = self.target_lengths[pairs]
        gathered = gather_rows(self._alignments, self._offsets["target"][pairs], lengths)
        if (gathered > np.repeat(self.source_lengths[pairs], lengths)).any():
            raise DataError(f"{self._name}.alignments: is damaged: it names a piece behind a source. {self._remedy}")
        return gathered


def is_current(data: Path, index: ShardIndex, inputs: ShardInputs) -> bool:
    """Whether a data set's shards are undamaged and were made from these inputs. All their bytes are read."""
    folder = DataFolder(data).shards
    try:
        for split in ENCODED_SPLITS:
            ParallelShards.of(folder, index, split)
    except DataError:
        return False
    return index.made.is_current(folder, inputs.as_json())
