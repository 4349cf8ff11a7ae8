"""Batches as rows: sentences one after the other, without padding, in few sizes.

A GPU's attention is told where each sentence ends, so no sentence is padded to the length of the longest. But
compilers and libraries prepare for each size that they meet. So the pairs of an update are dealt to micro-batches of
equal size, and the numbers of rows and of sentences are rounded up. Spare rows form sentences of their own, without
loss.

Shapes: N rows of one side, X sentences, rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices
from nmt.data.batching import Batch, EpochPlan
from nmt.data.vocab import Vocabulary

SPARE_SENTENCES = 8
"""Sentences of spare rows on each side. Each has at least one row, since attention needs a key."""
_ROWS_PER_OCTAVE = 16
# An empty sentence has no rows, but the gradient of flash attention takes as much memory for it as for 128 rows.
_SENTENCES_PER_OCTAVE = 1
_LENGTH_STEP = 256


@dataclass(frozen=True)
class Side:
    """Where the sentences of one side lie among its rows."""

    places_N: NDArray[np.int64]
    """The position of each row in its sentence; 0 for spare rows."""
    ends_X: NDArray[np.int32]
    """0, then where each sentence ends (X + 1 numbers). Sentences at the end may be empty."""
    longest: int
    """At least the number of rows of the longest sentence."""


@dataclass(frozen=True)
class RowBatch:
    """The pairs of a batch as rows; spare rows hold padding."""

    source_N: NDArray[np.int64]
    """Pieces + eos of each sentence."""
    target_input_N: NDArray[np.int64]
    """bos + pieces of each sentence."""
    target_output_N: NDArray[np.int64]
    """Pieces + eos of each sentence."""
    source: Side
    target: Side


def as_rows(batch: Batch) -> RowBatch:
    """The same pairs as rows."""
    source, target = _side(batch.source_lengths_B), _side(batch.target_lengths_B)
    return RowBatch(
        _rows(batch.source_BS, batch.source_lengths_B, source),
        _rows(batch.target_input_BT, batch.target_lengths_B, target),
        _rows(batch.target_output_BT, batch.target_lengths_B, target),
        source,
        target,
    )


def _side(lengths_B: NDArray[np.int64]) -> Side:
    real = int(lengths_B.sum())
    rows = _rounded_up(real + SPARE_SENTENCES, _ROWS_PER_OCTAVE)
    sentences = _rounded_up(len(lengths_B) + SPARE_SENTENCES, _SENTENCES_PER_OCTAVE)
    # As even as possible; the first ones are the longest.
    spare = (rows - real + np.arange(SPARE_SENTENCES)[::-1]) // SPARE_SENTENCES
    ends = np.full(sentences + 1, rows, np.int32)
    ends[0] = 0
    ends[1 : len(lengths_B) + SPARE_SENTENCES + 1] = np.cumsum(np.concatenate([lengths_B, spare]))
    places = np.zeros(rows, np.int64)
    places[:real] = np.arange(real) - np.repeat(ends[: len(lengths_B)], lengths_B)
    longest = max(int(lengths_B.max(initial=0)), int(spare[0]))
    return Side(places, ends, -(-longest // _LENGTH_STEP) * _LENGTH_STEP)


def _rounded_up(least: int, sizes_per_octave: int) -> int:
    """The next number that is allowed; ``sizes_per_octave`` are allowed from a power of two to the next."""
    step = max(1, (1 << (least - 1).bit_length()) // (2 * sizes_per_octave))
    return -(-least // step) * step


def _rows(padded: NDArray[np.int64], lengths_B: NDArray[np.int64], side: Side) -> NDArray[np.int64]:
    rows = np.full(len(side.places_N), Vocabulary.PAD, np.int64)
    rows[: int(lengths_B.sum())] = padded[np.arange(padded.shape[1]) < lengths_B[:, None]]
    return rows


def dealt_micro_batches(
    plan: EpochPlan,
    index: int,
    *,
    rank: int,
    ranks: int,
    max_tokens: int,
    source_lengths: Indices,
    target_lengths: Indices,
) -> list[Indices]:
    """The micro-batches of one rank in one update, for batches as rows.

    The update's pairs are dealt, long ones first, to as many micro-batches as all ranks need. So all of these have
    nearly the same number of rows on either side, and sentences of all lengths.

    Args:
        max_tokens: the maximum of rows of a micro-batch, source or target. A pair that has more gets its own.
    """
    pairs = plan.update(index)
    sides = np.stack([source_lengths[pairs], target_lengths[pairs]]).astype(np.int64) + 1
    is_too_long = sides.max(axis=0) > max_tokens
    alone, others = np.flatnonzero(is_too_long), np.flatnonzero(~is_too_long)
    by_length = others[np.argsort(-sides[:, others].sum(axis=0), kind="stable")]
    count = ranks * max(1, -(-int(sides[:, others].sum(axis=1).max()) // (max_tokens * ranks)))
    while True:
        micro_batch = _in_snake_order(len(others), count)
        fullest = max(np.bincount(micro_batch, side[by_length]).max(initial=0) for side in sides)
        if fullest <= max_tokens:
            break
        count += ranks
    shares = (pairs[by_length[micro_batch == number]] for number in range(rank, count, ranks))
    return [*(share for share in shares if len(share)), *(pairs[[pair]] for pair in alone[rank::ranks])]


def _in_snake_order(pairs: int, micro_batches: int) -> Indices:
    """The micro-batch of each pair: 0, 1, 2, 2, 1, 0, 0, …; else the first would get the longest of each round."""
    rounds, turns = np.divmod(np.arange(pairs), micro_batches)
    return np.where(rounds % 2 == 0, turns, micro_batches - 1 - turns)
