"""Shards: a split's pieces as flat arrays on disk, mapped into memory and read by offset.

``shards/`` holds, for each split and side, ``SPLIT.SIDE.tokens`` (uint16 or uint32) and ``SPLIT.SIDE.offsets``
(int64, one more than there are sentences), and ``index.json``.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices, gather_rows
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.vocab import Vocabulary
from nmt.errors import DataError
from nmt.files import Kind, replacing_folder
from nmt.sentences import sentences
from nmt.text import NormalizationRule, normalizer, read_parallel, sentence_length

SHARDS_FOLDER = "shards"
INDEX_NAME = "index.json"
SAMPLING_NAME = "sampled.json"
"""Beside shards of one epoch: what they were sampled with."""
Side = Literal["source", "target"]
SIDES: tuple[Side, ...] = get_args(Side)
VERSION = 1
SENTENCES_COUNTED = 200_000
"""The maximum number of pairs per split, spread evenly, whose sentences are counted. A share of 0.1% is then known to
about 7% of it, and counting takes some seconds whatever the size of the corpus."""
_CHUNK_PAIRS = 50_000
# Lines of more sentences count with these.
_MOST_SENTENCES = 20

SHARDS = Kind(
    "shards",
    lambda folder: any(folder.glob("*.source.tokens")),
    is_folder=True,
    holds=(INDEX_NAME, "*.tokens", "*.offsets", SAMPLING_NAME),
)

Encode = Callable[[Sequence[str], Side, int], list[list[int]]]
"""From the lines of one side of a chunk of pairs, and the chunk's number, to their ids."""


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


def write_shards(
    data: Path,
    vocab: Vocabulary,
    *,
    max_length: int = 256,
    threads: int | None = None,
    source_normalization: NormalizationRule = "identity",
    vocabulary: dict[str, Any] | None = None,
) -> ShardIndex:
    """Encode train and valid; the shards are replaced only when the new ones are complete.

    Pairs with a side of more than ``max_length`` pieces are left out and counted. In valid that concerns the loss
    alone: BLEU is measured on its text, which is never filtered.

    Args:
        source_normalization: the rule that source text goes through first.
        vocabulary: the settings that the vocabulary was trained with, for the index.

    Raises:
        DataError: a file of the data set cannot be read.
        OutputError: something other than shards stands in their place.
    """

    def encode(lines: Sequence[str], side: Side, chunk: int) -> list[list[int]]:
        return vocab.encode(lines, threads=threads)

    return write_encoded(
        data,
        data / SHARDS_FOLDER,
        vocab,
        encode,
        ("train", "valid"),
        max_length=max_length,
        source_normalization=source_normalization,
        vocabulary=vocabulary,
        counted=("train",),
    )


def write_encoded(
    data: Path,
    folder: Path,
    vocab: Vocabulary,
    encode: Encode,
    splits: Sequence[str],
    *,
    max_length: int,
    counted: Sequence[str] = (),
    source_normalization: NormalizationRule = "identity",
    vocabulary: dict[str, Any] | None = None,
    beside: Mapping[str, bytes] | None = None,
) -> ShardIndex:
    """Write shards of some splits of a data set into a folder, which takes its name only once it is complete.

    Args:
        encode: from lines to ids.
        max_length: pairs with a side of more pieces are left out and counted.
        counted: splits whose lines' sentences are counted.
        source_normalization: the rule that source text goes through before ``encode``.
        vocabulary: the settings that the vocabulary was trained with, for the index.
        beside: further files, by name, to stand in the folder from the first.

    Raises:
        DataError: a file of the data set cannot be read.
        OutputError: something other than shards stands in their place.
    """
    manifest = read_manifest(data)
    dtype = np.dtype(np.uint16 if vocab.size <= 1 << 16 else np.uint32)
    with replacing_folder(folder, SHARDS) as temporary:
        written = {
            split: _write_split(
                data,
                manifest,
                split,
                source_normalization,
                encode,
                vocab,
                temporary,
                dtype,
                max_length,
                counts=split in counted,
            )
            for split in splits
        }
        index = ShardIndex(
            VERSION,
            vocab.fingerprint,
            manifest.fingerprint,
            max_length,
            dtype.name,
            written,
            source_normalization,
            vocabulary,
        )
        (temporary / INDEX_NAME).write_text(json.dumps(asdict(index), indent=2, ensure_ascii=False) + "\n", "utf-8")
        for name, content in (beside or {}).items():
            (temporary / name).write_bytes(content)
    return index


def _write_split(
    data: Path,
    manifest: Manifest,
    split: str,
    source_normalization: NormalizationRule,
    encode: Encode,
    vocab: Vocabulary,
    folder: Path,
    dtype: np.dtype[Any],
    max_length: int,
    *,
    counts: bool,
) -> SplitStatistics:
    languages: dict[Side, str] = {"source": manifest.source_lang, "target": manifest.target_lang}
    names = {side: data / f"{split}.{language}" for side, language in languages.items()}
    # The recipe's steps were done to train when it was prepared. Valid is kept as it came, so they are done here, as
    # translate does them. The rule is done to the source of both.
    normalize = normalizer(
        nfc=manifest.nfc and split != "train",
        punctuation=manifest.punctuation and split != "train",
        language=manifest.source_lang,
        rule=source_normalization,
    )
    is_byte = np.zeros(vocab.size, bool)
    is_byte[list(vocab.byte_ids)] = True
    statistics = SplitStatistics()
    # Every so many pairs: the whole text would take long, and the first lines may be of another kind than the last.
    step = -(-manifest.files[f"{split}.{manifest.source_lang}"].lines // SENTENCES_COUNTED) if counts else 0
    sentence_counts: dict[Side, Counter[int]] = {side: Counter() for side in SIDES}
    writers = {side: _SideWriter(folder, f"{split}.{side}", dtype) for side in SIDES}
    try:
        for chunk, pairs in enumerate(_chunks(read_parallel(names["source"], names["target"]))):
            texts: dict[Side, list[str]] = {
                "source": [normalize(pair[0]) for pair in pairs],
                "target": [pair[1] for pair in pairs],
            }
            encoded = {side: encode(texts[side], side, chunk) for side in SIDES}
            for side in SIDES:
                _count(statistics.sides[side], texts[side], encoded[side], languages[side], is_byte)
            for number, (source, target) in enumerate(zip(encoded["source"], encoded["target"], strict=True)):
                if max(len(source), len(target)) > max_length:
                    statistics.too_long += 1
                elif split == "train" and not (source and target):
                    statistics.empty += 1
                else:
                    statistics.pairs += 1
                    writers["source"].add(source)
                    writers["target"].add(target)
                    if step and (chunk * _CHUNK_PAIRS + number) % step == 0:
                        for side in SIDES:
                            sentence_counts[side][len(sentences(texts[side][number], languages[side]))] += 1
    finally:
        for writer in writers.values():
            writer.close()
    if counts:
        for side in SIDES:
            statistics.sides[side].sentences = _by_number(sentence_counts[side])
    return statistics


def _by_number(counts: Counter[int]) -> list[int]:
    """How many there are of 1, 2, 3 ..., those of very many together with the last."""
    numbers = [0] * min(max(counts, default=0), _MOST_SENTENCES)
    for number, count in counts.items():
        numbers[min(number, _MOST_SENTENCES) - 1] += count
    return numbers


def _chunks(pairs: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    while chunk := list(itertools.islice(pairs, _CHUNK_PAIRS)):
        yield chunk


def _count(
    statistics: SideStatistics,
    texts: list[str],
    encoded: list[list[int]],
    language: str,
    is_byte: NDArray[np.bool_],
) -> None:
    ids = np.fromiter(itertools.chain.from_iterable(encoded), np.int32)
    statistics.words += sum(sentence_length(text, language) for text in texts)
    statistics.pieces += len(ids)
    statistics.unknown += int((ids == Vocabulary.UNK).sum())
    statistics.byte_pieces += int(is_byte[ids].sum())
    statistics.longest = max(statistics.longest, max(map(len, encoded), default=0))


class _SideWriter:
    """Appends sentences to one side's two files."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._tokens: IO[bytes] = (folder / f"{name}.tokens").open("wb")
        self._offsets: IO[bytes] = (folder / f"{name}.offsets").open("wb")
        self._end = 0
        self._offsets.write(np.int64(0).tobytes())

    def add(self, ids: list[int]) -> None:
        self._tokens.write(np.array(ids, dtype=self._dtype).tobytes())
        self._end += len(ids)
        self._offsets.write(np.int64(self._end).tobytes())

    def close(self) -> None:
        self._tokens.close()
        self._offsets.close()
