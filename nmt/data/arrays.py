"""Rows of unequal lengths, concatenated in one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.integer[Any]]


def starts_of(lengths: Indices) -> NDArray[np.int64]:
    """Where each row begins."""
    starts: NDArray[np.int64] = np.cumsum(lengths, dtype=np.int64) - lengths
    return starts


def gather_rows(values: NDArray[Any], starts: Indices, lengths: Indices) -> NDArray[Any]:
    """The rows that begin at ``starts``, concatenated, in one gather."""
    # The index of each value in ``values`` is its index in the result plus its row's shift.
    shifts = np.repeat(starts - starts_of(lengths), lengths)
    gathered: NDArray[Any] = values[np.arange(len(shifts)) + shifts]
    return gathered
