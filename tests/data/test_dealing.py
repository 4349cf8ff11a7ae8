"""Micro-batches for attention that needs no padding: each pair is in one, and they are filled alike on all ranks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batching import plan_epoch
from nmt.data.dealing import dealt_micro_batches


def lengths_like_wmt(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal lengths in pieces, 29 on average, and sources that are longer or shorter by 15% at one sigma."""
    draw = np.random.default_rng(0)
    target = np.exp(draw.normal(3.2, 0.6, count))
    source = target * np.exp(draw.normal(0, 0.15, count))
    return tuple(np.clip(np.round(side), 1, 255).astype(np.int32) for side in (source, target))


def dealt(lengths, index, plan, rank, ranks, max_tokens):
    return dealt_micro_batches(
        plan, index, rank=rank, ranks=ranks, max_tokens=max_tokens, source_lengths=lengths[0], target_lengths=lengths[1]
    )


@pytest.mark.parametrize(("update_tokens", "ranks"), [(25_000, 8), (25_000, 1), (100_000, 8)])
def test_ranks_have_equally_much_to_do(update_tokens, ranks):
    lengths = lengths_like_wmt(150_000)
    plan = plan_epoch(*lengths, update_tokens=update_tokens, group_tokens=4_096, seed=1, epoch=0)
    assert len(plan) >= 40
    for index in range(len(plan)):
        shares = [dealt(lengths, index, plan, rank, ranks, 30_000) for rank in range(ranks)]
        assert {len(share) for share in shares} == {len(shares[0])}
        for side in lengths:
            tokens = [sum(int((side[pairs] + 1).sum()) for pairs in share) for share in shares]
            assert max(tokens) <= 1.1 * np.mean(tokens)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=200),
    st.integers(1, 9),
    st.integers(1, 300),
)
def test_each_pair_is_dealt_once_and_no_share_is_too_large(pairs, ranks, max_tokens):
    lengths = tuple(np.array(side, np.int32) for side in zip(*pairs, strict=True))
    plan = plan_epoch(*lengths, update_tokens=500, group_tokens=100, seed=1, epoch=0)
    for index in range(len(plan)):
        shares = [share for rank in range(ranks) for share in dealt(lengths, index, plan, rank, ranks, max_tokens)]
        assert sorted(np.concatenate(shares)) == sorted(plan.update(index))
        for share in shares:
            assert len(share) == 1 or max(int((side[share] + 1).sum()) for side in lengths) <= max_tokens


def test_a_pair_that_is_too_long_leaves_the_others_together():
    lengths = tuple(np.concatenate([np.full(500, 20), [9_000], np.full(500, 20)]).astype(np.int32) for _ in "ST")
    plan = plan_epoch(*lengths, update_tokens=30_000, group_tokens=4_096, seed=1, epoch=0)
    shares = [dealt(lengths, 0, plan, rank, 2, 8_192) for rank in range(2)]
    assert sorted(len(share) for rank in shares for share in rank) == [1, 250, 250, 250, 250]
