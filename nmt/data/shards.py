"""Shards: a split's pieces as flat arrays on disk, mapped into memory and read by offset.

``shards/`` holds ``index.json`` and, for each split and side, ``SPLIT.SIDE.tokens`` (uint16 or uint32) and
``SPLIT.SIDE.offsets`` (int64, sentences + 1).

Checks for damage (``shard_checks.py``): opening reads the index and all offsets, and samples the tokens; each batch
checks its own tokens; ``nmt build-vocab`` reads every file before it reports shards as up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter
from pydantic_core import to_jsonable_python

from nmt.config import AugmentationConfig
from nmt.data.arrays import Indices, gather_rows
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile
from nmt.data.made import Made, read_record
from nmt.data.shard_checks import Damage, check_lengths, check_sample, check_tokens, file_names, mapped
from nmt.errors import DataError
from nmt.io.ownership import Kind
from nmt.io.regular import read_regular
from nmt.text.steps import Steps, TextSteps

INDEX_NAME = "index.json"
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)
ENCODED_SPLITS = ("train", "valid")
"""The splits that a data set's shards hold; test sets are read as text."""
VERSION = 3
ALIGNMENTS = "train.alignments"
"""The file with the alignments of the training pairs."""

_LARGEST = 2**62
_REMOVE = "Remove the folder, so that it is made again."

_Count = Annotated[int, Field(ge=0, le=_LARGEST)]


def token_dtype(pieces: int) -> Literal["uint16", "uint32"]:
    """The smallest type that holds every id of a vocabulary with so many pieces."""
    return "uint16" if pieces <= 1 << 16 else "uint32"


def _is_our_shards(folder: Path) -> bool:
    """Whether a folder holds shards, possibly damaged; they are recognised by the names of their files."""
    if any(folder.glob("*.tokens")) or any(folder.glob("*.offsets")):
        return True
    try:
        content = read_regular(folder / INDEX_NAME)
        index = json.loads(content) if content else {"vocab_fingerprint": None}
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(index, dict) and "vocab_fingerprint" in index


SHARDS = Kind("shards", _is_our_shards, is_folder=True, holds=(INDEX_NAME, ALIGNMENTS, "*.tokens", "*.offsets"))


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
    with_forms: _Count = 0
    """Number of lines that have another Unicode normal form, C or D."""
    decomposed: _Count = 0
    """Number of lines that are not in normal form C."""

    def add(self, other: SideStatistics) -> None:
        """Add the statistics of further pairs."""
        self.words += other.words
        self.pieces += other.pieces
        self.unknown += other.unknown
        self.byte_pieces += other.byte_pieces
        self.with_forms += other.with_forms
        self.decomposed += other.decomposed
        self.longest = max(self.longest, other.longest)
        if self.sentences is not None:
            self.sentences = [sum(counts) for counts in zip_longest(self.sentences, other.sentences or [], fillvalue=0)]


@dataclass
class SplitStatistics:
    """Statistics of an encoded split."""

    pairs: _Count = 0
    too_long: _Count = 0
    """Pairs that were left out because a side has more pieces than the limit."""
    empty: _Count = 0
    """Pairs that were left out because a side has no pieces."""
    sides: dict[Side, SideStatistics] = field(default_factory=lambda: {side: SideStatistics() for side in SIDES})

    def add(self, other: SplitStatistics) -> None:
        """Add the statistics of further pairs."""
        self.pairs += other.pairs
        self.too_long += other.too_long
        self.empty += other.empty
        for side in SIDES:
            self.sides[side].add(other.sides[side])


@dataclass(frozen=True)
class Sampling:
    """How the training text was changed and segmented at random, for one epoch."""

    dropout: float
    """As in :meth:`nmt.data.vocab.Vocabulary.encode_sampled`."""
    augmentation: AugmentationConfig
    seed: int
    epoch: int = 0


@dataclass(frozen=True)
class ShardInputs:
    """What shards are made from: equal inputs give the same shards."""

    version: int
    vocab_fingerprint: str
    data_fingerprint: str
    source_lang: str
    target_lang: str
    source_text: Steps
    """What the recipe does to source text, which is done to valid here."""
    max_pieces: Annotated[int, Field(ge=1, le=_LARGEST)]
    is_aligned: bool
    """Whether the training pairs have alignments."""
    steps: TextSteps
    """What text goes through before it is encoded, beside what the recipe does."""
    text: dict[str, TextFile]
    """The encoded files by name."""
    sampling: Sampling | None
    """None for the shards of a data set."""
    tag: str = field(default="", kw_only=True)
    """Of the data set."""

    def as_json(self) -> dict[str, Any]:
        """The inputs as JSON, where a file of text is its sha256."""
        values = {each.name: getattr(self, each.name) for each in fields(ShardInputs)}
        text = {name: file.sha256 for name, file in self.text.items()}
        values |= {"text": text, "sampling": self.sampling and asdict(self.sampling)}
        plain: dict[str, Any] = to_jsonable_python(values)
        return plain


@dataclass(frozen=True)
class ShardIndex(ShardInputs):
    """The content of ``index.json``: the record of the inputs and outputs of shards."""

    dtype: Literal["uint16", "uint32"]
    vocab_size: Annotated[int, Field(ge=1, le=1 << 32)]
    """The number of pieces; every id is smaller."""
    splits: dict[str, SplitStatistics]
    checksums: dict[str, str]
    """The sha256 of every other file in the folder."""

    @property
    def made(self) -> Made:
        """The inputs and outputs of the shards."""
        return Made(self.as_json(), self.checksums)

    def edited_text(self, text: Mapping[str, TextFile]) -> list[str]:
        """Names of the files whose present text is not the encoded one."""
        return [name for name, file in text.items() if name in self.text and self.text[name].sha256 != file.sha256]


_INDEX = TypeAdapter(ShardIndex)


def index_text(index: ShardIndex) -> str:
    """The content of ``index.json``."""
    return json.dumps(_INDEX.dump_python(index, mode="json"), indent=2, ensure_ascii=False) + "\n"


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
        return cls.of(folder, read_folder_index(folder), split, _REMOVE)

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


def known_index(data: Path) -> ShardIndex | None:
    """The index of a data set's shards; None if there is none that this version can read."""
    try:
        return read_index(data)
    except DataError:
        return None


def read_folder_index(folder: Path) -> ShardIndex:
    """Read the index of shards in any folder.

    Raises:
        DataError: there are no shards, or they are damaged or of another version.
    """
    try:
        return _read_index(folder, _REMOVE)
    except FileNotFoundError:
        raise DataError(f"{folder}: holds no shards (no {INDEX_NAME}).") from None


def _read_index(folder: Path, remedy: str) -> ShardIndex:
    path = folder / INDEX_NAME
    index = read_record(path, _INDEX, VERSION, remedy)
    if any(set(split.sides) != set(SIDES) for split in index.splits.values()):
        raise DataError(f"{path}: is damaged: a split has other sides than {' and '.join(SIDES)}. {remedy}")
    texts = {f"{split}.{code}" for split in index.splits for code in (index.source_lang, index.target_lang)}
    if set(index.text) != texts:
        raise DataError(f"{path}: is damaged: it lists other text than that of its splits. {remedy}")
    if set(index.checksums) != {*_names(index.splits), *([ALIGNMENTS] if index.is_aligned else [])}:
        raise DataError(f"{path}: is damaged: it lists other files than those of its splits. {remedy}")
    return index


def _names(splits: Iterable[str]) -> list[str]:
    return [name for split in splits for side in SIDES for name in file_names(split, side)]


def is_current(data: Path, index: ShardIndex, inputs: ShardInputs) -> bool:
    """Whether a data set's shards are undamaged and were made from these inputs. All their bytes are read."""
    folder = DataFolder(data).shards
    try:
        for split in ENCODED_SPLITS:
            ParallelShards.of(folder, index, split)
    except DataError:
        return False
    return index.made.is_current(folder, inputs.as_json())
