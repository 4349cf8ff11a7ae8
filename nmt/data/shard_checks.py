"""Checks for damaged shard files.

A full disk, an interrupted copy or a power cut leaves files that are too short, too long, or partly zeroed. Sizes and
offsets reveal the first two at no cost. Zeros are detected because id 0 is padding, which is never stored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The smallest id of a piece: 0 is padding.
_FIRST_ID = 1
_SAMPLED_BLOCKS = 64
_BLOCK = 2_048
"""Tokens per sampled block: one or two pages of 4 kB."""


class Damage(Exception):  # noqa: N818
    """What is wrong with a file, as a sentence. The caller adds how to make the file again."""


def file_names(split: str, side: str) -> tuple[str, str]:
    """The names of the token and offset files of one side of a split."""
    return f"{split}.{side}.tokens", f"{split}.{side}.offsets"


def mapped(path: Path, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """A file of ``count`` numbers, mapped for reading.

    Raises:
        Damage: the file cannot be read, or has another size.
    """
    expected = count * dtype.itemsize
    try:
        size = path.stat().st_size
        if size != expected:
            raise Damage(f"{path}: is damaged: it has {size:,} bytes, not {expected:,}.")
        if size == 0:  # An empty file cannot be mapped.
            return np.zeros(0, dtype)
        # Viewed as a plain array: indexing a memmap is slower.
        return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
    except (OSError, ValueError) as error:
        raise Damage(f"{path}: cannot be read ({error}).") from None


def check_lengths(path: Path, offsets: NDArray[np.int64], max_pieces: int) -> None:
    """Check that offsets begin at 0 and never decrease, and that no sentence is longer than the limit.

    Raises:
        Damage: the offsets fail a check.
    """
    if offsets[0] != 0:
        raise Damage(f"{path}: is damaged: the first offset is {offsets[0]:,}, not 0.")
    # Compared, not subtracted: differences of damaged 64-bit numbers may overflow.
    falls = offsets[1:] < offsets[:-1]
    if falls.any():
        raise Damage(f"{path}: is damaged: the offsets fall at sentence {int(falls.argmax()) + 1:,}.")
    longest = int(np.diff(offsets).max(initial=0))
    if longest > max_pieces:
        raise Damage(f"{path}: is damaged: a sentence has {longest:,} pieces; the maximum is {max_pieces:,}.")


def check_sample(path: Path, tokens: NDArray[Any], vocab_size: int) -> None:
    """Check evenly spread blocks of tokens, including the first and the last: at most 512 kB of a file.

    Raises:
        Damage: a token is not the id of a piece.
    """
    last = max(0, len(tokens) - _BLOCK)
    for start in sorted({round(number * last / (_SAMPLED_BLOCKS - 1)) for number in range(_SAMPLED_BLOCKS)}):
        check_tokens(path, tokens[start : start + _BLOCK], vocab_size)


def check_tokens(path: Path, tokens: NDArray[Any], vocab_size: int) -> None:
    """Check that tokens are ids of pieces.

    Args:
        vocab_size: every id must be smaller.

    Raises:
        Damage: a token is not the id of a piece.
    """
    if not len(tokens):
        return
    if tokens.min() < _FIRST_ID:
        raise Damage(f"{path}: is damaged: it holds the id 0, which is padding.")
    if (largest := int(tokens.max())) >= vocab_size:
        raise Damage(f"{path}: is damaged: it holds the id {largest:,}, but the vocabulary has {vocab_size:,} pieces.")
