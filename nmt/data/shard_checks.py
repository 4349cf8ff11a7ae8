"""Whether the files of shards are as they were written.

A disk that was full, a copy that broke off or a power cut leaves files that are short, long, or zeroed in places.
Sizes and offsets tell the first two at no cost. Zeros are not ids of pieces: 0 is padding, which is never stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.hashing import sha256_of

# Where tokens begin that are ids of pieces: before it is padding.
_FIRST_ID = 1
_SAMPLED_BLOCKS = 64
_BLOCK = 2_048
"""In tokens; two blocks to a page of the disk's at most."""
_SCANNED = 1 << 22
"""Tokens that are looked at in one piece where all are."""


class Damage(Exception):  # noqa: N818
    """What is wrong with a file, as a sentence; whoever knows what makes the file anew adds it."""


def file_names(split: str, side: str) -> tuple[str, str]:
    """The names of the tokens and the offsets of one side of a split."""
    return f"{split}.{side}.tokens", f"{split}.{side}.offsets"


def mapped(path: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """A file of ``count`` numbers, mapped for reading.

    Raises:
        Damage: the file cannot be read, or is of another size.
    """
    expected = count * dtype.itemsize
    try:
        size = path.stat().st_size
        if size != expected:
            raise Damage(f"{path}: is damaged: it has {size:,} bytes, not {expected:,}.")
        if size == 0:  # which cannot be mapped
            return np.zeros(0, dtype)
        # As a plain array over the same memory: indexing a memmap is slower.
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
    except (OSError, ValueError) as error:
        raise Damage(f"{path}: cannot be read ({error}).") from None


def check_lengths(path: Path, offsets: NDArray[np.int64], max_length: int) -> None:
    """Check that offsets begin at 0 and that no sentence has fewer than 0 pieces or more than the limit.

    Raises:
        Damage: they do not.
    """
    if offsets[0] != 0:
        raise Damage(f"{path}: is damaged: the first offset is {offsets[0]:,}, not 0.")
    # By comparisons alone, since differences of any 64 bits may overflow.
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        raise Damage(f"{path}: is damaged: the offsets fall at sentence {int(falls.argmax()) + 1:,}.")
    longest = int(np.diff(offsets).max(initial=0))
    if longest > max_length:
        raise Damage(f"{path}: is damaged: a sentence has {longest:,} pieces, where {max_length:,} are the maximum.")


def check_sample(path: Path, tokens: NDArray[Any], vocab_size: int | None) -> None:
    """Check some blocks of tokens, spread evenly, the first and the last among them: at most 256 kB of a file.

    Raises:
        Damage: they hold what is no id of a piece.
    """
    last = max(0, len(tokens) - _BLOCK)
    for start in sorted({round(number * last / (_SAMPLED_BLOCKS - 1)) for number in range(_SAMPLED_BLOCKS)}):
        check_tokens(path, tokens[start : start + _BLOCK], vocab_size)


def check_tokens(path: Path, tokens: NDArray[Any], vocab_size: int | None) -> None:
    """Check that tokens are ids of pieces.

    Args:
        vocab_size: every id is smaller; None where it is not known.

    Raises:
        Damage: they are not.
    """
    if not len(tokens):
        return
    if tokens.min() < _FIRST_ID:
        raise Damage(f"{path}: is damaged: it holds the id 0, which is padding.")
    if vocab_size is not None and (largest := int(tokens.max())) >= vocab_size:
        raise Damage(
            f"{path}: is damaged: it holds the id {largest:,}, where the vocabulary has {vocab_size:,} pieces."
        )


def checksums(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by name."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir())}


def check_content(
    folder: Path, splits: Iterable[str], recorded: Mapping[str, str] | None, dtype: str, vocab_size: int
) -> None:
    """Check all bytes of the shards of some splits.

    Args:
        recorded: the checksum of each file; where None, each token is checked instead.

    Raises:
        Damage: a file cannot be read, or is not as it was written.
    """
    for split, side in itertools.product(splits, ("source", "target")):
        if recorded is None:
            _check_all_tokens(folder / file_names(split, side)[0], np.dtype(dtype), vocab_size)
            continue
        for name in file_names(split, side):
            if _sha256(folder / name) != recorded.get(name):
                raise Damage(f"{folder / name}: is damaged: its sha256 is not the one in the index.")


def _check_all_tokens(path: Path, dtype: np.dtype[Any], vocab_size: int) -> None:
    tokens = mapped(path, dtype, path.stat().st_size // dtype.itemsize)
    for start in range(0, len(tokens), _SCANNED):
        check_tokens(path, tokens[start : start + _SCANNED], vocab_size)


def _sha256(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        raise Damage(f"{path}: cannot be read ({error.strerror}).") from None
