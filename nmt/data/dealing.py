"""Micro-batches for attention that needs no padding: pairs of all lengths, as many rows in each.

A GPU's attention is told where each sentence ends, so no sentence is padded to the length of the longest. Then the
pairs of an update need not be sorted by length: they are dealt to micro-batches of equal size.
"""

from __future__ import annotations

import numpy as np

from nmt.data.arrays import Indices
from nmt.data.batching import EpochPlan


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
    """The micro-batches of one rank in one update.

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
