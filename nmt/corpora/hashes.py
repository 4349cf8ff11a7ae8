"""Text as 64-bit hashes, and sets of hashes on disk: cleaning remembers these instead of strings."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nmt.io.writing import WriteError, open_to_write

Hashes = npt.NDArray[np.uint64]

# Hashes per block: 2 MB of each array that is merged.
_BLOCK = 1 << 18


def hash_lines(lines: Iterable[str]) -> Hashes:
    """A hash per line, shape (lines,). One corpus of 40 million lines in 20,000 has two lines with equal hashes."""
    digests = (hashlib.blake2b(line.encode("utf-8", "replace"), digest_size=8).digest() for line in lines)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def no_hashes() -> Hashes:
    """The empty set."""
    return np.empty(0, np.uint64)


def hash_set(hashes: Iterable[Hashes]) -> Hashes:
    """The union of arrays of hashes, sorted."""
    return np.unique(np.concatenate([no_hashes(), *hashes]))


def contains(sorted_hashes: Hashes, hashes: Hashes) -> npt.NDArray[np.bool_]:
    """For each hash, whether it is among the sorted ones."""
    if not len(sorted_hashes):
        return np.zeros(len(hashes), dtype=np.bool_)
    places = np.searchsorted(sorted_hashes, hashes)
    return np.asarray(sorted_hashes[np.minimum(places, len(sorted_hashes) - 1)] == hashes)


class SeenHashes:
    """The set of hashes seen so far, in memory-mapped files of 8 bytes per hash.

    The files are sorted runs, each at least twice as long as the next. A new run is merged with the last ones until
    this holds again, so there are few runs to search and each hash is moved few times.
    """

    def __init__(self, folder: Path) -> None:
        """Args: folder: for the files; the caller removes it."""
        self._folder = folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._names = itertools.count()
        self._runs: list[tuple[Path, Hashes]] = []

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add hashes; return for each, shape (hashes,), whether it is seen for the first time.

        Raises:
            WriteError: the system refused to write them.
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
        # Mapped read-only and viewed as a plain array: a write to a mapped page without room on disk kills the process.
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
        error.advise(
            "Cleaning keeps 8 to 16 bytes per pair beside the data set: make room, or name a folder on another disk "
            "with --out. Then run the same command again."
        )
        raise


def merge_sorted(parts: Sequence[Hashes], block: int = _BLOCK) -> Iterator[Hashes]:
    """Merge sorted arrays; yields sorted pieces with at most ``block`` hashes from each array."""
    places = [0] * len(parts)
    while open_parts := [index for index, part in enumerate(parts) if places[index] < len(part)]:
        ends = {index: min(places[index] + block, len(parts[index])) for index in open_parts}
        # All hashes up to the smallest of the blocks' last hashes are in the blocks.
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
