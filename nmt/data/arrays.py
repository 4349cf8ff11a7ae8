"""Rows of unequal lengths, concatenated in one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.integer[Any]]


class Rows(NamedTuple):
    """Rows of ids, one after the other."""

    values: NDArray[Any]
    lengths: NDArray[np.int64]
    """The length of each row."""

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | NDArray[np.int32]]) -> Self:
        """Concatenate lists or arrays."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        return cls(np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.int32, copy=False), lengths)

    def chosen(self, is_chosen: NDArray[np.bool_]) -> Rows:
        """The rows for which ``is_chosen`` is true, in order."""
        if is_chosen.all():
            return self
        return Rows(self.values[np.repeat(is_chosen, self.lengths)], self.lengths[is_chosen])


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
