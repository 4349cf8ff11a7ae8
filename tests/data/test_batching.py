"""The plan of an epoch, and what ranks and devices get of it."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batching import Batch, collate, plan_epoch, rank_micro_batches
from nmt.data.shard_index import SIDES

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=300).map(
    lambda pairs: tuple(np.array(side, dtype=np.int32) for side in zip(*pairs, strict=True))
)


def plan(lengths, *, update=200, group=80, seed=1, epoch=0, pairs=None):
    return plan_epoch(*lengths, update_tokens=update, group_tokens=group, seed=seed, epoch=epoch, pairs=pairs)


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


@pytest.mark.parametrize(
    ("epoch", "digest"),
    [
        (0, "e56cc65b3fbae4cd80da0933b00de96ac00b287c853ce966d3743aaf042cec6b"),
        (3, "65b659919ba654c7b4a1a8a658f7be09ae343724351c53232cbf058ac33538a5"),
    ],
)
def test_the_plan_stays_the_same_from_release_to_release(epoch, digest):
    """Or a run that goes on would meet other pairs than those that are left of its epoch."""
    made = plan(random_lengths(5_000), update=2_000, group=500, epoch=epoch)
    content = b"".join(array.astype("<i8").tobytes() for array in (made.pairs, made.starts, made.tokens))
    assert hashlib.sha256(content).hexdigest() == digest


def test_updates_come_near_their_budget():
    lengths = random_lengths(20_000)
    for group in (1_000, 5_000):
        tokens = plan(lengths, update=5_000, group=group).tokens
        assert abs(tokens.mean() / 5_000 - 1) < 0.02
        assert abs(tokens / 5_000 - 1).max() < 0.02


def test_the_sides_of_an_update_keep_their_ratio():
    """Or micro-batches of one size would have spare rows on either side."""
    draw = np.random.default_rng(0)
    target = draw.integers(5, 60, 100_000).astype(np.int32)
    source = np.maximum(1, target * np.exp(draw.normal(0, 0.2, 100_000))).astype(np.int32)
    made = plan((source, target), update=25_000, group=1_000)
    sources = np.array([(source[made.update(index)] + 1).sum() for index in range(len(made))])
    assert sources.std() < 0.03 * sources.mean()


def test_an_epoch_has_each_pair_as_often_as_its_population():
    lengths = random_lengths(3_000)
    population = np.sort(np.random.default_rng(0).integers(0, 3_000, 5_000).astype(np.int32))
    made = plan(lengths, pairs=population)
    assert np.array_equal(np.sort(made.pairs), population)
    assert made.pairs.dtype == np.int32
    assert (made.pairs.nbytes + made.starts.nbytes + made.tokens.nbytes) / len(population) <= 16
    for index in range(len(made)):
        assert made.target_tokens(index) == (lengths[1][made.update(index)] + 1).sum()
    assert np.array_equal(plan(lengths, pairs=np.arange(3_000)).pairs, plan(lengths).pairs)


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


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_tiny_corpus_is_one_update(count):
    lengths = (np.full(count, 5, np.int32), np.full(count, 6, np.int32))
    made = plan(lengths, update=10_000, group=4_096)
    assert len(made) == 1
    assert made.target_tokens(0) == 7 * count


SENTENCES = st.lists(st.integers(4, 65_535), max_size=8)


def collated_row_by_row(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    return Batch(
        np.array([piece for source, _ in pairs for piece in (*source, 3)]),
        np.array([piece for _, target in pairs for piece in (2, *target)]),
        np.array([piece for _, target in pairs for piece in (*target, 3)]),
        np.array([len(source) + 1 for source, _ in pairs]),
        np.array([len(target) + 1 for _, target in pairs]),
    )


@given(st.data(), st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=12))
def test_a_batch_holds_the_pairs_asked_for(shards_of, data, pairs):
    chosen = data.draw(st.lists(st.integers(0, len(pairs) - 1), min_size=1, max_size=20))
    shards = shards_of(pairs)
    batch, expected = collate(shards, np.array(chosen)), collated_row_by_row([pairs[index] for index in chosen])
    for name in ("source_M", "target_input_N", "target_output_N", "source_lengths_B", "target_lengths_B"):
        ours, theirs = getattr(batch, name), getattr(expected, name)
        assert ours.dtype == np.int64
        assert np.array_equal(ours, theirs), name
    assert batch.target_tokens == sum(len(pairs[index][1]) + 1 for index in chosen)
    assert batch.source_tokens == sum(len(pairs[index][0]) + 1 for index in chosen)
    assert batch.positions == len(chosen) * max(len(side) + 1 for index in chosen for side in pairs[index])
    for number, side in enumerate(SIDES):
        tokens = shards.tokens(side, np.array(chosen))
        assert tokens.tolist() == [token for index in chosen for token in pairs[index][number]]
        assert tokens.dtype == np.uint16


def test_the_plan_of_no_pairs_is_empty():
    nothing = np.zeros(0, np.int32)
    assert len(plan_epoch(nothing, nothing, update_tokens=10, group_tokens=10, seed=1, epoch=0)) == 0
