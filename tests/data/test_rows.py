"""Batches as rows: every piece is there, and the sizes that a GPU meets are few, filled and alike on all ranks."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batching import Batch, plan_epoch
from nmt.data.rows import SPARE_SENTENCES, as_rows, dealt_micro_batches

SENTENCES = st.lists(st.integers(4, 100), max_size=30)


def batch_of(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    def padded(sentences: list[list[int]]) -> np.ndarray:
        longest = max(map(len, sentences))
        return np.array([sentence + [0] * (longest - len(sentence)) for sentence in sentences])

    sources, targets = zip(*pairs, strict=True)
    return Batch(
        padded([[*source, 3] for source in sources]),
        padded([[2, *target] for target in targets]),
        padded([[*target, 3] for target in targets]),
        np.array([len(source) + 1 for source in sources]),
        np.array([len(target) + 1 for target in targets]),
    )


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=30))
def test_rows_hold_each_sentence_in_its_place(pairs):
    rows = as_rows(batch_of(pairs))
    sides = (
        (rows.source, rows.source_N, [[*source, 3] for source, _ in pairs]),
        (rows.target, rows.target_input_N, [[2, *target] for _, target in pairs]),
        (rows.target, rows.target_output_N, [[*target, 3] for _, target in pairs]),
    )
    for side, tokens, sentences in sides:
        ends = side.ends_X
        parts = [tokens[start:end].tolist() for start, end in itertools.pairwise(ends)]
        assert parts[: len(pairs)] == sentences
        places = [side.places_N[start:end].tolist() for start, end in itertools.pairwise(ends)]
        assert places[: len(pairs)] == [list(range(len(sentence))) for sentence in sentences]
        spare, empty = parts[len(pairs) :][:SPARE_SENTENCES], parts[len(pairs) + SPARE_SENTENCES :]
        assert len(spare) == SPARE_SENTENCES
        assert all(part and set(part) == {0} for part in spare)
        assert not any(empty)
        assert ends[0] == 0
        assert ends[-1] == len(tokens) == len(side.places_N)
        assert max(map(len, parts)) <= side.longest
        assert ends.dtype == np.int32


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


def batch_of_lengths(source: np.ndarray, target: np.ndarray) -> Batch:
    source_BS, target_BT = (np.ones((len(side), int(side.max()) + 1), np.int64) for side in (source, target))
    return Batch(source_BS, target_BT, target_BT, source.astype(np.int64) + 1, target.astype(np.int64) + 1)


@pytest.mark.parametrize(
    ("update_tokens", "ranks", "most_shapes"), [(25_000, 8, 64), (25_000, 1, 64), (100_000, 8, 64)]
)
def test_census_of_shapes(update_tokens, ranks, most_shapes):
    """Of an epoch: few shapes, little padding, and ranks that have equally much to do."""
    lengths = lengths_like_wmt(150_000)
    plan = plan_epoch(*lengths, update_tokens=update_tokens, group_tokens=4_096, seed=1, epoch=0)
    shapes, real, computed, imbalance = Counter(), 0, 0, []
    for index in range(len(plan)):
        rows_of_rank = []
        for rank in range(ranks):
            made = [
                (batch := batch_of_lengths(lengths[0][pairs], lengths[1][pairs]), as_rows(batch))
                for pairs in dealt(lengths, index, plan, rank, ranks, 30_000)
            ]
            rows_of_rank.append(sum(len(rows.source_N) + len(rows.target_input_N) for _, rows in made))
            real += sum(batch.source_tokens + batch.target_tokens for batch, _ in made)
            for _, rows in made:
                sides = ((len(side.places_N), len(side.ends_X), side.longest) for side in (rows.source, rows.target))
                shapes[tuple(sides)] += 1
        computed += sum(rows_of_rank)
        imbalance.append(max(rows_of_rank) / np.mean(rows_of_rank) - 1)
    assert len(plan) >= 40
    assert 1 - real / computed <= 0.03
    assert max(imbalance) <= 0.05
    assert len(shapes) <= most_shapes, shapes


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
