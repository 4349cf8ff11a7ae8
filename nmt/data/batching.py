"""The plan of an epoch (pairs grouped by length, updates of a number of target tokens), micro-batches, and batches.

Lengths are in pieces; tokens count eos, so a sentence of n pieces has n + 1 tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices
from nmt.data.shards import PairSource
from nmt.data.vocab import Vocabulary


@dataclass(frozen=True)
class EpochPlan:
    """The pairs of each update of an epoch, in order; 4 bytes per pair (8 from two billion pairs on)."""

    pairs: Indices
    """Every pair once, or as often as it is in the epoch's population."""
    starts: NDArray[np.int64]
    """The index in ``pairs`` where each update begins, and the end of the last."""
    tokens: NDArray[np.int64]
    """Target tokens of each update."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def update(self, index: int) -> Indices:
        """The pairs of an update, counted from 0."""
        return self.pairs[self.starts[index] : self.starts[index + 1]]

    def target_tokens(self, index: int) -> int:
        """Target tokens of an update."""
        return int(self.tokens[index])


def plan_epoch(
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    update_tokens: int,
    group_tokens: int,
    seed: int,
    epoch: int,
    pairs: Indices | None = None,
) -> EpochPlan:
    """Plan an epoch: a pure function of its arguments, the same for any number of ranks.

    Pairs are sorted by the length of their longer side, which determines the padding, and cut into groups of
    ``group_tokens`` target tokens (section 5.1: batched together by approximate sequence length). The groups are
    shuffled, and cut into updates. A group or update ends with the pair that fills it; groups of an update's size are
    the updates.

    Args:
        pairs: the epoch's population, as indices into the lengths, repeated for pairs that occur several times; every
            pair once if not given.
    """
    random = np.random.default_rng([seed, epoch])
    count = len(target_lengths) if pairs is None else len(pairs)
    index_type = np.int32 if max(count, len(target_lengths)) <= np.iinfo(np.int32).max else np.int64
    shuffled: Indices = random.permutation(count).astype(index_type)
    if pairs is not None:
        shuffled = pairs[shuffled].astype(index_type)
    # Stable, and of shuffled pairs: pairs of equal length come in random order. A second key, such as the length of the
    # target, would make groups of equal lengths differ in the ratio of source to target, and updates with them.
    by_length = _sorted_by(np.maximum(source_lengths, target_lengths), shuffled)

    group_ends = _cuts(target_lengths[by_length].astype(np.int64) + 1, min(group_tokens, update_tokens))
    group_starts = np.concatenate([[0], group_ends[:-1]]).astype(np.int64)
    order = random.permutation(len(group_ends))
    sizes = (group_ends - group_starts)[order]
    # Positions of the pairs, group after group in the new order.
    offsets = np.repeat(group_starts[order] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    planned = by_length[np.arange(count, dtype=np.int64) + offsets]

    tokens = target_lengths[planned].astype(np.int64) + 1
    ends = _cuts(tokens, update_tokens) if group_tokens < update_tokens else np.cumsum(sizes)
    token_ends = np.cumsum(tokens)[ends - 1]
    starts = np.concatenate([[0], ends]).astype(np.int64)
    return EpochPlan(planned, starts, np.diff(np.concatenate([[0], token_ends])).astype(np.int64))


def _sorted_by(lengths: Indices, pairs: Indices) -> Indices:
    """Pairs sorted by their lengths, stably."""
    # numpy sorts 16-bit numbers in linear time.
    fits = int(lengths.max(initial=0)) <= np.iinfo(np.uint16).max
    keys = lengths.astype(np.uint16) if fits else lengths
    return pairs[np.argsort(keys[pairs], kind="stable")]


def _cuts(tokens: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Cut a sequence of items into stretches with token counts close to a budget; returns the stretches' ends.

    The total is divided evenly, and each cut is at most half an item away from the even division.
    """
    if len(tokens) == 0:
        return np.zeros(0, np.int64)
    total = np.cumsum(tokens)
    stretches = max(1, round(int(total[-1]) / budget))
    targets = total[-1] * np.arange(1, stretches + 1, dtype=np.float64) / stretches
    middles = total - tokens / 2
    ends = np.searchsorted(middles, targets, side="left").astype(np.int64)
    ends[-1] = len(tokens)
    return np.unique(ends[ends > 0])


def rank_micro_batches(
    plan: EpochPlan,
    index: int,
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    rank: int,
    ranks: int,
    max_tokens: int,
) -> list[Indices]:
    """The micro-batches of one rank in one update.

    The update's pairs are sorted by length and divided so that the ranks get similar numbers of tokens, source and
    target together; a rank may get none. :func:`micro_batches` cuts each share.
    """
    pairs = plan.update(index)
    source_tokens, target_tokens = (lengths[pairs].astype(np.int64) + 1 for lengths in (source_lengths, target_lengths))
    order = np.argsort(np.maximum(source_tokens, target_tokens), kind="stable")
    tokens = (source_tokens + target_tokens)[order]
    total = np.cumsum(tokens)
    owner = (total - tokens / 2) * ranks // max(int(total[-1]), 1) if len(pairs) else total
    return micro_batches(pairs[order[owner == rank]], max_tokens, source_lengths, target_lengths)


def micro_batches(pairs: Indices, max_tokens: int, source_lengths: Indices, target_lengths: Indices) -> list[Indices]:
    """Sort pairs by length and cut them into micro-batches of at most ``max_tokens`` padded positions.

    Positions are rows times the longest side. A micro-batch of one pair may have more.
    """
    longest = np.maximum(source_lengths[pairs], target_lengths[pairs]).astype(np.int64) + 1
    order = np.argsort(longest, kind="stable")
    pairs, longest = pairs[order], longest[order]
    cut, start = [], 0
    while start < len(pairs):
        rows = np.arange(1, len(pairs) - start + 1)
        fitting = int(np.searchsorted(rows * longest[start:], max_tokens, side="right"))
        end = start + max(1, fitting)
        cut.append(pairs[start:end])
        start = end
    return cut


@dataclass(frozen=True)
class Batch:
    """Pairs as packed arrays (int64): the sentences of a side one after the other.

    Shapes: B pairs, M source and N target positions of all of them.
    """

    source_M: NDArray[np.int64]
    """Pieces + eos of each source."""
    target_input_N: NDArray[np.int64]
    """bos + pieces of each target."""
    target_output_N: NDArray[np.int64]
    """Pieces + eos of each target."""
    source_lengths_B: NDArray[np.int64]
    """Pieces + eos of each source."""
    target_lengths_B: NDArray[np.int64]
    """Pieces + eos of each target; its input has as many positions."""
    aligned_N: NDArray[np.int64] | None = field(default=None, kw_only=True)
    """For each piece of ``target_output_N``, the number of the source piece that it comes from, from 1; 0 for none."""

    @property
    def pairs(self) -> int:
        """The number of pairs."""
        return len(self.source_lengths_B)

    @property
    def source_tokens(self) -> int:
        """Pieces + eos."""
        return len(self.source_M)

    @property
    def target_tokens(self) -> int:
        """Pieces + eos."""
        return len(self.target_output_N)

    @property
    def positions(self) -> int:
        """Pairs times the longest side: its padded positions, which ``micro_batch_tokens`` limits."""
        longest = max(self.source_lengths_B.max(initial=0), self.target_lengths_B.max(initial=0))
        return self.pairs * int(longest)

    @property
    def longer_side_tokens(self) -> int:
        """Tokens of the longer side, which ``micro_batch_tokens`` limits where attention needs no padding."""
        return max(self.source_tokens, self.target_tokens)


def collate(shards: PairSource, pairs: Indices) -> Batch:
    """Put pairs into one batch."""
    source_lengths, target_lengths = (
        lengths[pairs].astype(np.int64) for lengths in (shards.source_lengths, shards.target_lengths)
    )
    targets = shards.tokens("target", pairs)
    ends, target_ends = np.cumsum(source_lengths), np.cumsum(target_lengths)
    aligned = shards.alignments(pairs)
    return Batch(
        source_M=_inserted(shards.tokens("source", pairs), ends, Vocabulary.EOS),
        target_input_N=_inserted(targets, target_ends - target_lengths, Vocabulary.BOS),
        target_output_N=_inserted(targets, target_ends, Vocabulary.EOS),
        source_lengths_B=source_lengths + 1,
        target_lengths_B=target_lengths + 1,
        aligned_N=None if aligned is None else _inserted(aligned, target_ends, 0),
    )


def _inserted(tokens: NDArray[Any], places: NDArray[np.int64], piece: int) -> NDArray[np.int64]:
    """Tokens with a piece before each of the places."""
    inserted: NDArray[np.int64] = np.insert(tokens.astype(np.int64), places, piece)
    return inserted
