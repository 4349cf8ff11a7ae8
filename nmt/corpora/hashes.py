"""Text as 64-bit hashes, and sets of them that lie on disk: what cleaning remembers instead of strings."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


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
    """Which hashes have come by, in files that are mapped into memory: 8 bytes a hash, on disk.

    Sorted runs, each at least twice as long as the next: a newcomer is merged with its neighbours as they come to be
    of its size, so that there are few runs to search and each hash is moved few times.
    """

    def __init__(self, folder: Path) -> None:
        """Args: folder: where the files go; the caller removes it in the end."""
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._names = itertools.count()
        self._runs: list[tuple[Path, np.memmap[tuple[int], np.dtype[np.uint64]]]] = []

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Remember hashes; tell for each, shape (hashes,), whether this is the first time that it comes by."""
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
        length = len(newcomers)
        retired = []
        while self._runs and len(self._runs[-1][1]) < 2 * length:
            path, run = self._runs.pop()
            merged.append(run)
            length += len(run)
            retired.append(path)
        path = self._folder / f"{next(self._names)}.u64"
        run = np.memmap(path, dtype=np.uint64, mode="w+", shape=(length,))
        end = 0
        for part in merged:
            run[end : end + len(part)] = part
            end += len(part)
        run.sort()  # In place: the numbers stay in the file's pages.
        self._runs.append((path, run))
        del merged
        for old in retired:
            old.unlink()
