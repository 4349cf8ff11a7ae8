"""Micro-batches for attention that needs no padding: each pair is in one, and they are filled alike on all ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batching import plan_epoch
from nmt.data.dealing import MicroBatchLimits, dealt_micro_batches, fitting_limits


def lengths_like_wmt(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal lengths in pieces, 29 on average, and sources that are longer or shorter by 15% at one sigma."""
    draw = np.random.default_rng(0)
    target = np.exp(draw.normal(3.2, 0.6, count))
    source = target * np.exp(draw.normal(0, 0.15, count))
    return tuple(np.clip(np.round(side), 1, 255).astype(np.int32) for side in (source, target))


def dealt(lengths, index, plan, rank, ranks, limits):
    return dealt_micro_batches(
        plan, index, rank=rank, ranks=ranks, limits=limits, source_lengths=lengths[0], target_lengths=lengths[1]
    )


def rows(lengths, pairs) -> list[int]:
    return [int((side[pairs] + 1).sum()) for side in lengths]


@pytest.mark.parametrize(
    ("update_tokens", "ranks", "max_tokens"), [(25_000, 8, 30_000), (25_000, 1, 30_000), (25_000, 2, 8_192)]
)
def test_the_limits_leave_few_rows_spare_on_any_number_of_ranks(update_tokens, ranks, max_tokens):
    lengths = lengths_like_wmt(50_000)
    longest = int(max(side.max() for side in lengths)) + 1
    plan = plan_epoch(*lengths, update_tokens=update_tokens, group_tokens=1_000, seed=1, epoch=0)
    limits = fitting_limits(plan, *lengths, ranks=ranks, max_tokens=max_tokens, longest=longest)
    assert limits.tokens <= max_tokens
    more = pieces = micro_batches = 0
    for index in range(0, len(plan), 3):
        shares = [dealt(lengths, index, plan, rank, ranks, limits) for rank in range(ranks)]
        assert {len(share) for share in shares} == {len(shares[0])}
        more += len(shares[0]) > -(-max(rows(lengths, plan.update(index))) // (max_tokens * ranks))
        pieces += sum(rows(lengths, plan.update(index)))
        micro_batches += ranks * len(shares[0])
    assert more <= 0.03 * len(plan) / 3 + 1
    assert pieces >= 0.96 * micro_batches * (limits.source + limits.target)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=200),
    st.integers(1, 9),
    st.integers(1, 300),
    st.integers(1, 200),
)
def test_each_pair_is_dealt_once_and_no_share_is_too_large(pairs, ranks, max_tokens, places):
    lengths = tuple(np.array(side, np.int32) for side in zip(*pairs, strict=True))
    plan = plan_epoch(*lengths, update_tokens=500, group_tokens=100, seed=1, epoch=0)
    found = fitting_limits(plan, *lengths, ranks=ranks, max_tokens=max_tokens, longest=41)
    assert min(found.source, found.target) >= 41
    for limits in (found, MicroBatchLimits(41, 41 + max_tokens, places)):
        for index in range(len(plan)):
            shares = [share for rank in range(ranks) for share in dealt(lengths, index, plan, rank, ranks, limits)]
            assert sorted(np.concatenate(shares)) == sorted(plan.update(index))
            for share in shares:
                source, target = rows(lengths, share)
                assert source <= limits.source
                assert target <= limits.target
                assert len(share) <= limits.pairs
    # A pure function: a run that resumes finds the same.
    assert fitting_limits(plan, *lengths, ranks=ranks, max_tokens=max_tokens, longest=41) == found
