"""Text as 64-bit hashes, and sets of them that lie on disk: what cleaning remembers instead of strings."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.writing import WriteError, open_to_write

Hashes = npt.NDArray[np.uint64]

# Hashes: 2 MB of each array that is merged.
_BLOCK = 1 << 18


def hash_lines(lines: Iterable[str]) -> Hashes:
    """A hash for each line, shape (lines,). Among 40 million lines, two meet by chance once in 20,000 corpora."""
    digests = (hashlib.blake2b(line.encode("utf-8", "replace"), digest_size=8).digest() for line in lines)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def no_hashes() -> Hashes:
    """The empty set."""
    return np.empty(0, np.uint64)


def hash_set(hashes: Iterable[Hashes]) -> Hashes:
    """Arrays of hashes as one, sorted and without repetition."""
    return np.unique(np.concatenate([no_hashes(), *hashes]))


def contains(sorted_hashes: Hashes, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """For each hash, whether it is among the sorted ones."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), dtype=np.bool_)
    places = np.searchsorted(sorted_hashes, hashes)
    return np.asarray(sorted_hashes[np.minimum(places, len(sorted_hashes) - 1)] == hashes)


class SeenHashes:
    """Which hashes have come by, in files that are mapped for reading: 8 bytes a hash, on disk.

    Sorted runs, each at least twice as long as the next: a newcomer is merged with its neighbours as they come to be
    of its size, so that there are few runs to search and each hash is moved few times.
    """

    def __init__(self, folder: Path) -> None:
        """Args: folder: where the files go; the caller removes it in the end."""
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._names = itertools.count()
        self._runs: list[tuple[Path, Hashes]] = []

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Remember hashes; tell for each, shape (hashes,), whether this is the first time that it comes by.

        Raises:
            WriteError: there is no room for them.
        """
        first = np.zeros(len(hashes), dtype=np.bool_)
        unique, places = np.unique(hashes, return_index=True)
        new = np.ones(len(unique), dtype=np.bool_)
        for _, run in self._runs:
            new &= ~contains(run, unique)
        first[places[new]] = True
        if new.any():
            self._store(unique[new])
        return first

    def _store(self, newcomers: Hashes) -> None:
        merged = [newcomers]
        retired = []
        while self._runs and len(self._runs[-1][1]) < 2 * sum(map(len, merged)):
            path, run = self._runs.pop()
            merged.append(run)
            retired.append(path)
        path = self._folder / f"{next(self._names)}.u64"
        _write(path, merge_sorted(merged))
        # As a plain array over the same memory, which is mapped for reading alone: to write to a page of a mapped file
        # for which the disk has no room ends the process.
        self._runs.append((path, np.asarray(np.memmap(path, dtype=np.uint64, mode="r"))))
        del merged
        for old in retired:
            old.unlink()


def _write(path: Path, blocks: Iterable[Hashes]) -> None:
    try:
        with open_to_write(path, "wb", follow=False) as stream:
            for block in blocks:
                stream.write(block.data)
    except WriteError as error:
        raise error.changed(
            kept="Cleaning remembers each pair in 8 to 16 bytes beside the data set; what stood there before is "
            "unchanged.",
            then="Make room, or name a folder on another disk with --out, then run the same command again.",
        ) from error


def merge_sorted(parts: Sequence[Hashes], block: int = _BLOCK) -> Iterator[Hashes]:
    """Sorted arrays as one, in sorted pieces of at most ``block`` hashes of each array."""
    places = [0] * len(parts)
    while open_parts := [index for index, part in enumerate(parts) if places[index] < len(part)]:
        ends = {index: min(places[index] + block, len(parts[index])) for index in open_parts}
        # Up to the smallest of the blocks' last hashes, nothing is missing.
        limit = min(parts[index][end - 1] for index, end in ends.items())
        taken = []
        for index, end in ends.items():
            ready = parts[index][places[index] : end]
            ready = ready[: int(np.searchsorted(ready, limit, side="right"))]
            places[index] += len(ready)
            taken.append(ready)
        piece = np.concatenate(taken)
        piece.sort(kind="stable")
        yield piece
