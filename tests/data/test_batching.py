"""The plan of an epoch, and what ranks and devices get of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batching import plan_epoch, rank_micro_batches

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=300).map(
    lambda pairs: tuple(np.array(side, dtype=np.int32) for side in zip(*pairs, strict=True))
)


def plan(lengths, *, update=200, group=80, seed=1, epoch=0):
    return plan_epoch(*lengths, update_tokens=update, group_tokens=group, seed=seed, epoch=epoch)


def random_lengths(count: int, seed: int = 0):
    draw = np.random.default_rng(seed)
    source = draw.integers(1, 60, count).astype(np.int32)
    return source, np.clip(source + draw.integers(-3, 4, count), 1, None).astype(np.int32)


@given(LENGTHS, st.integers(1, 400), st.integers(1, 400))
def test_every_pair_comes_once_and_tokens_are_counted(lengths, update, group):
    made = plan(lengths, update=update, group=group)
    pairs = np.concatenate([made.update(index) for index in range(len(made))])
    assert sorted(pairs) == list(range(len(lengths[0])))
    for index in range(len(made)):
        assert made.target_tokens(index) == (lengths[1][made.update(index)] + 1).sum()
        assert made.target_tokens(index) > 0


def test_updates_come_near_their_budget():
    lengths = random_lengths(20_000)
    made = plan(lengths, update=5_000, group=1_000)
    tokens = np.array([made.target_tokens(index) for index in range(len(made))])
    assert abs(tokens.mean() / 5_000 - 1) < 0.02
    assert tokens.max() < 5_000 * 1.25
    assert tokens.min() > 5_000 * 0.75


def test_a_group_holds_pairs_of_like_length():
    lengths = random_lengths(20_000)
    made = plan(lengths, update=1_000, group=1_000)
    padded = real = 0
    for index in range(len(made)):
        pairs = made.update(index)
        real += lengths[1][pairs].sum()
        padded += lengths[1][pairs].max() * len(pairs)
    assert real / padded > 0.9


def test_the_plan_is_a_pure_function_and_epochs_differ():
    lengths = random_lengths(2_000)
    first, again = plan(lengths), plan(lengths)
    assert np.array_equal(first.pairs, again.pairs)
    assert np.array_equal(first.starts, again.starts)
    assert not np.array_equal(first.pairs, plan(lengths, epoch=1).pairs)
    assert not np.array_equal(first.pairs, plan(lengths, seed=2).pairs)
    # Other companions too, not just another order of the same groups.
    assert {frozenset(first.update(i).tolist()) for i in range(len(first))}.isdisjoint(
        {frozenset(plan(lengths, epoch=1).update(i).tolist()) for i in range(5)}
    )


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 5), st.integers(1, 300))
def test_ranks_share_an_update_whatever_their_number(lengths, ranks, max_tokens):
    made = plan(lengths)
    for index in range(len(made)):
        shares = [
            rank_micro_batches(
                made, index, rank=rank, ranks=ranks, max_tokens=max_tokens,
                source_lengths=lengths[0], target_lengths=lengths[1],
            )
            for rank in range(ranks)
        ]  # fmt: skip
        together = [pair for share in shares for micro_batch in share for pair in micro_batch]
        assert sorted(together) == sorted(made.update(index))
        for micro_batch in (micro_batch for share in shares for micro_batch in share):
            longest = max(lengths[0][micro_batch].max(), lengths[1][micro_batch].max()) + 1
            assert len(micro_batch) == 1 or len(micro_batch) * longest <= max_tokens


def test_ranks_get_like_shares():
    lengths = random_lengths(5_000)
    made = plan(lengths, update=20_000, group=2_000)
    tokens = [
        sum(
            int((lengths[1][m] + 1).sum())
            for m in rank_micro_batches(
                made, 0, rank=rank, ranks=4, max_tokens=4_000, source_lengths=lengths[0], target_lengths=lengths[1]
            )
        )
        for rank in range(4)
    ]
    assert max(tokens) / min(tokens) < 1.1


def test_a_plan_holds_little_memory_a_pair():
    made = plan(random_lengths(100_000), update=5_000, group=1_000)
    assert (made.pairs.nbytes + made.starts.nbytes + made.tokens.nbytes) / 100_000 <= 16


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_tiny_corpus_is_one_update(count):
    lengths = (np.full(count, 5, np.int32), np.full(count, 6, np.int32))
    made = plan(lengths, update=10_000, group=4_096)
    assert len(made) == 1
    assert made.target_tokens(0) == 7 * count
