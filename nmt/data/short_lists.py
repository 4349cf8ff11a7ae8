"""Vocabulary short-lists: for each source piece, the target pieces that a translation of it is likely to hold.

A search that is given them chooses among the pieces of each sentence's list (``nmt/search/candidates.py``). This list
holds the lists of the sentence's pieces, these pieces themselves (names and numbers are copied), the most frequent
target pieces, and the special pieces. It depends on the sentence alone, so no translation depends on the lines beside
it.

File: ``short-lists.npz``, numpy's archive of arrays.

Shapes: V source pieces, X pieces of all their lists, F frequent pieces, E entries of the lexicon.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices, gather_rows
from nmt.data.data_folder import DataFolder
from nmt.data.ibm_model_1 import estimate_lexicon
from nmt.data.shards import ENCODED_SPLITS, INDEX_NAME, PairSource, ParallelShards, build_command, read_index
from nmt.data.vocab import Vocabulary
from nmt.errors import DataError
from nmt.files import replacing
from nmt.hashing import sha256_of
from nmt.ownership import Kind, check_replaceable

VERSION = 1
LIKELIEST = 50
"""The maximum pieces of a source piece's list."""
FREQUENT = 1_000
"""The number of frequent target pieces that are in the list of every sentence."""
# An expected count below this is noise.
_LEAST_COUNT = 1e-3
_SPECIAL = range(Vocabulary.EOS + 1)
# The arrays of a file: their kinds of numbers or text, and their dimensions.
_ARRAYS = {
    "version": ("i", 0),
    "vocab_fingerprint": ("U", 0),
    "shards": ("U", 0),
    "pairs": ("i", 0),
    "starts": ("i", 1),
    "pieces": ("i", 1),
    "frequent": ("i", 1),
}


@dataclass(frozen=True)
class ListStatistics:
    """How well short-lists fit pairs."""

    size: float
    """The mean number of pieces of a sentence's list."""
    coverage: float
    """The share of the pieces of targets that are in their sentence's list."""


@dataclass(frozen=True)
class ShortLists:
    """The lists of all source pieces."""

    starts_V1: NDArray[np.int64]
    """Where the list of each source piece begins, and where the last one ends."""
    pieces_X: NDArray[np.int32]
    frequent_F: NDArray[np.int32]
    """Target pieces that are in the list of every sentence."""
    vocab_fingerprint: str
    shards: str
    """The hash of the index of the shards that the lists were made from."""
    pairs: int
    """The number of pairs that the lists were made from."""

    @property
    def vocab_size(self) -> int:
        """The number of source pieces."""
        return len(self.starts_V1) - 1

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that a search depends on."""
        parts = (self.starts_V1, self.pieces_X, self.frequent_F)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    def of_sentence(self, pieces: Indices) -> NDArray[np.int64]:
        """The pieces that a sentence's translation may hold, in ascending order."""
        source = np.unique(pieces)
        starts = self.starts_V1[source]
        listed = gather_rows(self.pieces_X, starts, self.starts_V1[source + 1] - starts)
        return np.unique(np.concatenate([_SPECIAL, source, self.frequent_F, listed]).astype(np.int64))

    def statistics(self, pairs: PairSource) -> ListStatistics | None:
        """How well the lists fit encoded pairs; None if there are none."""
        sizes, found, pieces = 0, 0, 0
        for index in range(len(pairs)):
            target = pairs.tokens("target", np.array([index]))
            own = self.of_sentence(pairs.tokens("source", np.array([index])))
            sizes += len(own)
            found += int(np.isin(target, own).sum())
            pieces += len(target)
        return ListStatistics(sizes / len(pairs), found / pieces) if pieces else None

    def save(self, path: Path) -> None:
        """Write the lists.

        Raises:
            WriteError: the system refused to write the file.
        """
        content = io.BytesIO()
        np.savez_compressed(
            content,
            version=np.array(VERSION),
            vocab_fingerprint=np.array(self.vocab_fingerprint),
            shards=np.array(self.shards),
            pairs=np.array(self.pairs),
            starts=self.starts_V1,
            pieces=self.pieces_X,
            frequent=self.frequent_F,
        )
        with replacing(path) as stream:
            stream.write(content.getvalue())

    @classmethod
    def load(cls, path: Path, vocab: Vocabulary | None = None) -> ShortLists:
        """Read the lists from a file, or from the data set in a folder.

        Args:
            vocab: the vocabulary that the lists must have been made with; None for any.

        Raises:
            DataError: there are no lists, they are damaged, or they were made with another vocabulary.
        """
        remedy = "Make the lists with `nmt build-vocab --short-lists` in the data set that the model was trained on."
        if path.is_dir():
            path, remedy = DataFolder(path).short_lists, f"Run `nmt build-vocab --data {path} --short-lists`."
        try:
            with path.open("rb") as stream:
                arrays = _arrays(stream.read())
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}). {remedy}") from None
        if arrays is None:
            raise DataError(f"{path}: is damaged, or no file of short-lists. {remedy}")
        if arrays["version"] != VERSION:
            raise DataError(f"{path}: is of version {arrays['version']}, not {VERSION}. {remedy}")
        lists = cls(
            arrays["starts"].astype(np.int64),
            arrays["pieces"].astype(np.int32),
            arrays["frequent"].astype(np.int32),
            str(arrays["vocab_fingerprint"]),
            str(arrays["shards"]),
            int(arrays["pairs"]),
        )
        if vocab is not None and lists.vocab_fingerprint != vocab.fingerprint:
            raise DataError(
                f"{path}: these short-lists were made with another vocabulary than the model's. Name the data set that "
                "the model was trained on."
            )
        if not lists._is_sound() or (vocab is not None and lists.vocab_size != vocab.larger_size):
            raise DataError(f"{path}: is damaged. {remedy}")
        return lists

    def _is_sound(self) -> bool:
        """Whether all pieces exist, and lists lie one after the other."""
        ends = self.starts_V1
        if len(ends) < 2 or ends[0] != 0 or ends[-1] != len(self.pieces_X) or (np.diff(ends) < 0).any():
            return False
        everything = np.concatenate([self.pieces_X, self.frequent_F])
        return not ((everything < 0) | (everything >= self.vocab_size)).any()


def _arrays(content: bytes) -> dict[str, NDArray[Any]] | None:
    """The arrays of a file; None if it is damaged or another file."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return None  # zipfile has a RuntimeError for every feature that it lacks
    found = {name: (array.dtype.kind, array.ndim) for name, array in arrays.items()}
    return arrays if found == _ARRAYS else None


def _is_ours(path: Path) -> bool:
    """Whether a file begins as :meth:`ShortLists.save` begins it; it may be damaged."""
    try:
        with path.open("rb") as stream:
            beginning = stream.read(1_000)
    except OSError:
        return False
    first, second = (f"{name}.npy".encode() for name in list(_ARRAYS)[:2])
    return beginning.startswith(b"PK") and first in beginning and second in beginning


SHORT_LISTS = Kind("short-lists", _is_ours)


@dataclass(frozen=True)
class BuiltShortLists:
    """A data set's short-lists."""

    lists: ShortLists
    statistics: ListStatistics | None
    """Of the validation pairs; None if there are none."""
    pairs: int
    """The number of training pairs."""
    changed: bool
    """False if they were up to date."""


def build_short_lists(data: Path) -> BuiltShortLists:
    """Make the short-lists of a data set from its encoded training pairs, and write them into its folder.

    Raises:
        DataError: the data set has no shards, or they are damaged.
        OutputError: the data set's folder holds a file of that name that this program did not write.
        WriteError: the system refused to write.
    """
    folder = DataFolder(data)
    check_replaceable(folder.short_lists, SHORT_LISTS, option=None)
    read_index(data)  # its errors name what is missing
    shards = sha256_of(folder.shards / INDEX_NAME)
    pairs, valid = (ParallelShards.open(data, split) for split in ENCODED_SPLITS)
    try:
        lists = ShortLists.load(folder.short_lists)
        if lists.shards == shards:
            return BuiltShortLists(lists, lists.statistics(valid), len(pairs), changed=False)
    except DataError:
        pass
    vocab = Vocabulary.load(folder.vocab)
    if pairs.vocab_fingerprint != vocab.fingerprint:
        raise DataError(f"{data}: its shards were made with another vocabulary. Run {build_command(data)} again.")
    lists = make_short_lists(pairs, vocab, shards=shards)
    if sha256_of(folder.shards / INDEX_NAME) != shards:
        raise DataError(f"{folder.shards}: was written again meanwhile. Run the same command again.")
    lists.save(folder.short_lists)
    return BuiltShortLists(lists, lists.statistics(valid), len(pairs), changed=True)


def make_short_lists(pairs: PairSource, vocab: Vocabulary, *, shards: str = "") -> ShortLists:
    """The short-lists of encoded pairs: the target pieces that each source piece most often explains.

    Raises:
        DataError: there are no pairs.
    """
    lexicon = estimate_lexicon(pairs, vocab.larger_size)
    if not lexicon.pairs:
        raise DataError("short-lists need training pairs, and there are none.")
    by_count = np.lexsort((-lexicon.count_E, lexicon.source_E))
    source_E, target_E, count_E = (array[by_count] for array in (lexicon.source_E, lexicon.target_E, lexicon.count_E))
    rank_E = np.arange(len(source_E)) - np.searchsorted(source_E, source_E)
    is_listed_E = (rank_E < LIKELIEST) & (count_E >= _LEAST_COUNT)
    source_X, target_X = source_E[is_listed_E], target_E[is_listed_E]
    by_frequency = np.argsort(-lexicon.target_count_V, kind="stable")
    frequent_F = by_frequency[: min(FREQUENT, np.count_nonzero(lexicon.target_count_V))]
    return ShortLists(
        np.searchsorted(source_X, np.arange(vocab.larger_size + 1)),
        target_X.astype(np.int32),
        frequent_F.astype(np.int32),
        vocab.fingerprint,
        shards,
        lexicon.pairs,
    )
