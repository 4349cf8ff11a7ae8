"""Shards: a split's pieces as flat arrays on disk, mapped into memory and read by offset.

``shards/`` holds ``index.json`` and, for each split and side, ``SPLIT.SIDE.tokens`` (uint16 or uint32) and
``SPLIT.SIDE.offsets`` (int64, sentences + 1).

Checks for damage (``shard_checks.py``): opening reads the index and all offsets, and samples the tokens; each batch
checks its own tokens; ``nmt build-vocab`` reads every file before it reports shards as up to date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from nmt.config import first_mistake
from nmt.data.arrays import Indices, gather_rows
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile, examine_text, is_same_text
from nmt.data.manifest import read_manifest
from nmt.data.shard_checks import Damage, check_content, check_lengths, check_sample, check_tokens, file_names, mapped
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError
from nmt.ownership import Kind
from nmt.text import NormalizationRule

INDEX_NAME = "index.json"
SAMPLING_NAME = "sampled.json"
"""The file beside sampled shards of one epoch that records their inputs."""
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)
ENCODED_SPLITS = ("train", "valid")
"""The splits that a data set's shards hold; test sets are read as text."""
VERSION = 1

_LARGEST = 2**62

_Count = Annotated[int, Field(ge=0, le=_LARGEST)]


def token_dtype(pieces: int) -> Literal["uint16", "uint32"]:
    """The smallest type that holds every id of a vocabulary with so many pieces."""
    return "uint16" if pieces <= 1 << 16 else "uint32"


def _is_our_shards(folder: Path) -> bool:
    """Whether a folder holds shards, possibly damaged; they are recognised by the names of their files."""
    if any(folder.glob("*.tokens")) or any(folder.glob("*.offsets")):
        return True
    try:
        content = (folder / INDEX_NAME).read_bytes()
        index = json.loads(content) if content else {"vocab_fingerprint": None}
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(index, dict) and "vocab_fingerprint" in index


SHARDS = Kind(
    "shards",
    _is_our_shards,
    is_folder=True,
    holds=(INDEX_NAME, "*.tokens", "*.offsets", SAMPLING_NAME),
)


@dataclass
class SideStatistics:
    """Statistics of one side of a split."""

    words: _Count = 0
    pieces: _Count = 0
    unknown: _Count = 0
    longest: _Count = 0
    """Pieces of the longest sentence."""
    sentences: list[_Count] | None = None
    """Numbers of lines with 1, 2, 3 ... sentences, counted in some of the pairs; None if they were not counted."""
    byte_pieces: _Count = 0
    """Number of pieces that are single bytes."""


@dataclass
class SplitStatistics:
    """Statistics of an encoded split."""

    pairs: _Count = 0
    too_long: _Count = 0
    """Pairs that were left out because a side has more pieces than the limit."""
    empty: _Count = 0
    """Pairs that were left out because a side has no pieces."""
    sides: dict[Side, SideStatistics] = field(default_factory=lambda: {side: SideStatistics() for side in SIDES})


@dataclass(frozen=True)
class ShardIndex:
    """The content of ``index.json``."""

    version: int
    vocab_fingerprint: str
    data_fingerprint: str
    max_length: Annotated[int, Field(ge=1, le=_LARGEST)]
    dtype: Literal["uint16", "uint32"]
    splits: dict[str, SplitStatistics]
    source_normalization: NormalizationRule = "identity"
    """The rule that is applied to source text before it is encoded."""
    vocabulary: dict[str, Any] | None = None
    """The settings that the vocabulary was trained with; None if it was not trained on this data set."""
    vocab_size: Annotated[int, Field(ge=1, le=1 << 32)] | None = None
    """The number of pieces; every id is smaller. None in shards of earlier versions."""
    checksums: dict[str, str] | None = None
    """The sha256 of every other file in the folder; None in shards of earlier versions."""
    text: dict[str, TextFile] | None = None
    """The encoded files by name; None in shards of earlier versions and in sampled shards."""
    vocabulary_origin: dict[str, Any] | None = None
    """The lineage of the data set that a given vocabulary was trained on; None if unknown or trained here."""


_INDEX = TypeAdapter(ShardIndex)


def index_text(index: ShardIndex) -> str:
    """The content of ``index.json``."""
    values = asdict(index)
    if index.vocabulary_origin is None:
        del values["vocabulary_origin"]
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"


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


class ParallelShards:
    """The encoded pairs of one split."""

    def __init__(
        self,
        index: ShardIndex,
        tokens: Mapping[Side, NDArray[Any]],
        offsets: Mapping[Side, NDArray[np.int64]],
        *,
        name: str = "shards",
        remedy: str = "",
    ) -> None:
        """Use arrays in memory or mapped arrays.

        Args:
            name: where the arrays come from, for errors.
            remedy: how to make the arrays again, for errors.
        """
        self.vocab_fingerprint = index.vocab_fingerprint
        self.data_fingerprint = index.data_fingerprint
        self.source_normalization = index.source_normalization
        self._tokens = tokens
        self._offsets = offsets
        self._vocab_size = index.vocab_size
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
        return cls._open(DataFolder(data).shards, index, split, f"Run {build_command(data, vocab)} again.")

    @classmethod
    def open_folder(cls, folder: Path, split: str) -> ParallelShards:
        """Map a split of shards in any folder.

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
        if split not in index.splits:
            raise DataError(f"{folder / INDEX_NAME}: is damaged: it names no split {split}. {remedy}")
        pairs = index.splits[split].pairs
        tokens: dict[Side, NDArray[Any]] = {}
        offsets: dict[Side, NDArray[np.int64]] = {}
        try:
            for side in SIDES:
                tokens_path, offsets_path = (folder / name for name in file_names(split, side))
                offsets[side] = mapped(offsets_path, np.dtype(np.int64), pairs + 1)
                check_lengths(offsets_path, offsets[side], index.max_length)
                tokens[side] = mapped(tokens_path, np.dtype(index.dtype), int(offsets[side][-1]))
                check_sample(tokens_path, tokens[side], index.vocab_size)
        except Damage as damage:
            raise DataError(f"{damage} {remedy}") from None
        return cls(index, tokens, offsets, name=str(folder / split), remedy=remedy)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def pair(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The pieces of a source and of its target."""
        source, target = (
            self._tokens[side][self._offsets[side][index] : self._offsets[side][index + 1]] for side in SIDES
        )
        return source, target

    def tokens(self, side: Side, pairs: Indices) -> NDArray[Any]:
        """The pieces of one side of some pairs, concatenated in the order of ``pairs``.

        Raises:
            DataError: the file is damaged: it holds numbers that are not ids of pieces.
        """
        starts = self._offsets[side][pairs]
        gathered = gather_rows(self._tokens[side], starts, self._offsets[side][pairs + 1] - starts)
        try:
            check_tokens(Path(f"{self._name}.{side}.tokens"), gathered, self._vocab_size)
        except Damage as damage:
            raise DataError(f"{damage} {self._remedy}") from None
        return gathered


def build_command(data: Path, vocab: Path | None = None) -> str:
    """The command that makes a data set's shards, with an existing vocabulary or a new one."""
    if vocab is None:
        return f"`nmt build-vocab --data {data}`"
    return f"`nmt build-vocab --data {data} --vocab {vocab}`"


def read_index(data: Path, *, vocab: Path | None = None) -> ShardIndex:
    """Read the index of a data set's shards.

    Args:
        vocab: as for :meth:`ParallelShards.open`.

    Raises:
        DataError: there are no shards, or they are damaged or of another version.
    """
    try:
        return _read_index(DataFolder(data).shards, f"Run {build_command(data, vocab)} again.")
    except FileNotFoundError:
        raise DataError(f"{data}: has no shards yet. Run {build_command(data, vocab)} first.") from None


def _read_index(folder: Path, remedy: str) -> ShardIndex:
    path = folder / INDEX_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}). {remedy}") from None
    try:
        index = _INDEX.validate_json(content, strict=True)
    except ValidationError as error:
        raise DataError(
            f"{path}: is {_other_version(content) or f'damaged: {first_mistake(error)}'}. {remedy}"
        ) from None
    if index.version != VERSION:
        raise DataError(f"{path}: is of version {index.version}, not {VERSION}. {remedy}")
    if any(set(split.sides) != set(SIDES) for split in index.splits.values()):
        raise DataError(f"{path}: is damaged: a split has other sides than {' and '.join(SIDES)}. {remedy}")
    return index


def _other_version(content: bytes) -> str | None:
    """A phrase that names the version of an index if it is another one; else None."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return None
    version = values.get("version") if isinstance(values, dict) else None
    return f"of version {version}, not {VERSION}" if isinstance(version, int) and version != VERSION else None


def are_current(
    data: Path,
    vocab: VocabularyPair,
    max_length: int,
    source_normalization: NormalizationRule = "identity",
    *,
    text: Mapping[str, TextFile] | None = None,
) -> bool:
    """Whether a data set's shards are undamaged and were made from its current text with these settings.

    All their bytes are read. Shards of versions that did not count sentences or did not record their text can be
    trained on, but are not current.

    Args:
        text: the state of the current text, if it has been read already.
    """
    try:
        index = read_index(data)
        for split in ENCODED_SPLITS:
            ParallelShards.open(data, split)
        if any(side.sentences is None for side in index.splits["train"].sides.values()):
            return False
        manifest = read_manifest(data)
        expected = (vocab.fingerprint, manifest.fingerprint, max_length, source_normalization)
        found = (index.vocab_fingerprint, index.data_fingerprint, index.max_length, index.source_normalization)
        if found != expected:
            return False
        if not is_same_text(index.text, text or examine_text(data, manifest, ENCODED_SPLITS)):
            return False
        check_content(DataFolder(data).shards, ENCODED_SPLITS, index.checksums, index.dtype, vocab.larger_size)
    except (DataError, Damage):
        return False
    return True
