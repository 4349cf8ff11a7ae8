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
_SIZES_PER_OCTAVE = 16
_LENGTH_STEP = 256


@dataclass(frozen=True)
class Side:
    """Where the sentences of one side lie among its rows."""

    places_N: NDArray[np.int64]
    """The position of each row in its sentence; 0 for spare rows."""
    ends_X: NDArray[np.int32]
    """0, then where each sentence ends. Sentences at the end may be empty."""
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
    rows, sentences = _rounded_rows(real), _rounded_sentences(len(lengths_B))
    # As even as possible; the first ones are the longest.
    spare = (rows - real + np.arange(SPARE_SENTENCES)[::-1]) // SPARE_SENTENCES
    ends = np.full(sentences + 1, rows, np.int32)
    ends[0] = 0
    ends[1 : len(lengths_B) + SPARE_SENTENCES + 1] = np.cumsum(np.concatenate([lengths_B, spare]))
    places = np.zeros(rows, np.int64)
    places[:real] = np.arange(real) - np.repeat(ends[: len(lengths_B)], lengths_B)
    longest = max(int(lengths_B.max(initial=0)), int(spare[0]))
    return Side(places, ends, -(-longest // _LENGTH_STEP) * _LENGTH_STEP)


def _rounded_rows(real: int) -> int:
    least = real + SPARE_SENTENCES
    step = max(1, (1 << (least - 1).bit_length()) // (2 * _SIZES_PER_OCTAVE))
    return -(-least // step) * step


def _rounded_sentences(real: int) -> int:
    """The next power of four: an empty sentence costs next to nothing."""
    bits = (real + SPARE_SENTENCES - 1).bit_length()
    return 1 << (bits + bits % 2)


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

    The update's pairs are dealt, long ones first, to as many hands as there are micro-batches of all ranks. So all have
    nearly the same number of rows on either side, and sentences of all lengths.

    Args:
        max_tokens: the maximum of rows of a micro-batch, source or target. A micro-batch of one pair may have more.
    """
    pairs = plan.update(index)
    sides = np.stack([source_lengths[pairs], target_lengths[pairs]]).astype(np.int64) + 1
    by_length = np.argsort(-sides.sum(axis=0), kind="stable")
    hands = ranks * max(1, -(-int(sides.sum(axis=1).max()) // (max_tokens * ranks)))
    while True:
        hand = _dealt(len(pairs), hands)
        fullest = max(np.bincount(hand, side[by_length]).max(initial=0) for side in sides)
        if fullest <= max_tokens or hands >= len(pairs):
            break
        hands += ranks
    shares = (pairs[by_length[hand == number]] for number in range(rank, hands, ranks))
    return [share for share in shares if len(share)]


def _dealt(cards: int, hands: int) -> Indices:
    """The hand of each card. Every second round begins with the last one, else the first would get the best of each."""
    rounds, turns = np.divmod(np.arange(cards), hands)
    return np.where(rounds % 2 == 0, turns, hands - 1 - turns)
