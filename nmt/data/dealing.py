"""Micro-batches for attention that needs no padding: pairs of all lengths, and one size for the whole run.

A GPU's attention is told where each sentence ends, so no sentence is padded to the length of the longest. Then the
pairs of an update need not be sorted by length: they are dealt to micro-batches that are as full as each other. All of
a run are filled up to one size on each side, so that a compiler sees one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.data.arrays import Indices
from nmt.data.batching import EpochPlan

_SHARE_THAT_FITS = 0.98
# Dealing thousands of updates would delay the start of a run by seconds.
_SAMPLED_UPDATES = 400
# Pairs are counted generously: a compiled size has room for them, and an empty sentence costs next to nothing.
_SPARE_PAIRS = 1.25


@dataclass(frozen=True)
class MicroBatchLimits:
    """What a micro-batch holds at most."""

    source: int
    """Source pieces, with eos."""
    target: int
    """Target pieces, with eos."""
    pairs: int

    @property
    def tokens(self) -> int:
        """The pieces of the longer side."""
        return max(self.source, self.target)


def dealt_micro_batches(
    plan: EpochPlan,
    index: int,
    source_lengths: Indices,
    target_lengths: Indices,
    *,
    rank: int,
    ranks: int,
    limits: MicroBatchLimits,
) -> list[Indices]:
    """The micro-batches of one rank in one update.

    The update's pairs are dealt, long ones first, to as many micro-batches as all ranks need. So all of these have
    nearly the same number of rows on either side, and sentences of all lengths.

    Args:
        limits: which hold each single pair.
    """
    pairs = plan.update(index)
    tokens_2P = _tokens(pairs, source_lengths, target_lengths)
    most_2 = np.array([limits.source, limits.target])
    count = ranks * _rounds(max(*(tokens_2P.sum(axis=1) / most_2), len(pairs) / limits.pairs), ranks)
    while True:
        owner_P, filled_2C = _dealt(tokens_2P, count)
        if (filled_2C.max(axis=1) <= most_2).all() and np.bincount(owner_P).max() <= limits.pairs:
            break
        count += ranks
    shares = (pairs[owner_P == number] for number in range(rank, count, ranks))
    return [share for share in shares if len(share)]


def fitting_limits(
    plan: EpochPlan, source_lengths: Indices, target_lengths: Indices, *, ranks: int, max_tokens: int, longest: int
) -> MicroBatchLimits:
    """The limits within which the micro-batches of a run have the fewest spare rows.

    At least 98% of the updates get no more micro-batches than ``max_tokens`` rows on each side would need. The others
    get one more on each rank. A pure function, so that a run that resumes finds the same.

    Args:
        max_tokens: what fits into memory, on either side.
        longest: the pieces of the longest sentence of any epoch, with eos, which the limits include.
    """
    found = []
    for index in np.linspace(0, len(plan) - 1, min(len(plan), _SAMPLED_UPDATES)).astype(int):
        tokens_2P = _tokens(plan.update(index), source_lengths, target_lengths)
        rounds = _rounds(tokens_2P.sum(axis=1).max() / max_tokens, ranks)
        owner_P, filled_2C = _dealt(tokens_2P, ranks * rounds)
        found.append([*filled_2C.max(axis=1).clip(min=longest), np.bincount(owner_P).max(), rounds])
    source_U, target_U, pairs_U, rounds_U = np.array(found).T
    best, fewest_rows = MicroBatchLimits(1, 1, 1), np.inf
    for share in np.linspace(_SHARE_THAT_FITS, 1.0, 5):
        # Each side may exclude half of the updates that may be excluded.
        source, target = (int(np.quantile(side_U, (1 + share) / 2, method="higher")) for side_U in (source_U, target_U))
        fits_U = (source_U <= source) & (target_U <= target)
        rows = ((source + target) * (rounds_U + ~fits_U)).sum()
        if rows < fewest_rows:
            best, fewest_rows = MicroBatchLimits(source, target, int(_SPARE_PAIRS * pairs_U.max())), rows
    return best


def _tokens(pairs: Indices, source_lengths: Indices, target_lengths: Indices) -> NDArray[np.int64]:
    """Pieces with eos of either side of some pairs, (2, P)."""
    return np.stack([source_lengths[pairs], target_lengths[pairs]]).astype(np.int64) + 1


def _rounds(micro_batches: float, ranks: int) -> int:
    """The micro-batches of each rank, if all of them together need so many."""
    return max(1, int(np.ceil(micro_batches / ranks)))


def _dealt(tokens_2P: NDArray[np.int64], micro_batches: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Deal pairs: each, long ones first, to the micro-batch whose longer side then is the shortest.

    Returns:
        The micro-batch of each pair, and the rows of each micro-batch on either side, (2, C).
    """
    owner_P = np.zeros(tokens_2P.shape[1], np.int64)
    if micro_batches == 1:
        return owner_P, tokens_2P.sum(axis=1, keepdims=True)
    filled_2C = np.zeros((2, micro_batches), np.int64)
    for pair in np.argsort(-tokens_2P.max(axis=0), kind="stable"):
        tokens_21 = tokens_2P[:, pair, None]
        owner_P[pair] = chosen = (filled_2C + tokens_21).max(axis=0).argmin()
        filled_2C[:, chosen] += tokens_2P[:, pair]
    return owner_P, filled_2C
