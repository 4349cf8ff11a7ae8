"""The record of shards, ``index.json``: what they were made from, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter
from pydantic_core import to_jsonable_python

from nmt.config import AugmentationConfig
from nmt.data.data_folder import DataFolder
from nmt.data.encoded_text import TextFile
from nmt.data.made import Made, read_record
from nmt.data.shard_checks import file_names
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
REMEDY = "Remove the folder, so that it is made again."
"""How to make shards again that training made, for errors."""

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
        return _read_index(folder, REMEDY)
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
