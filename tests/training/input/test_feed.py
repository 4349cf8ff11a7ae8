"""The updates of a run: every pair once per epoch, in an order that starts anywhere."""

import dataclasses
import itertools
import threading
from collections import Counter

import numpy as np
import pytest
import torch

from nmt.data.batching import Batch
from nmt.data.dealing import MicroBatchLimits
from nmt.model.packing import PackedSize
from nmt.training.input.data_sets import TrainingData
from nmt.training.input.feed import prefetched
from nmt.training.input.micro_batches import Filled, MicroBatching, Padded
from nmt.training.input.model_inputs import model_inputs
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.start.settings import resolve_config

EPOCHS = 3
CPU = torch.device("cpu")
PADDED, SMALLER_PADDED = Padded(50), Padded(20)
FILLED, SMALLER_FILLED = (Filled.within(MicroBatchLimits(size, size + 4, 9), 12, CPU) for size in (50, 20))
EITHER = pytest.mark.parametrize(
    ("batching", "smaller"), [(PADDED, SMALLER_PADDED), (FILLED, SMALLER_FILLED)], ids=["padded", "filled"]
)


@pytest.fixture
def updates(reversed_words, settled, tmp_path):
    """The updates of the first epochs, as one rank gets them, from a place in the plan on."""

    def make(ranks: Ranks = NO_OTHERS, epoch: int = 0, index: int = 0, batching: MicroBatching = PADDED) -> list:
        config = settled()
        data = TrainingData.open([reversed_words], config)
        planned = []
        with data.epochs(tmp_path, ranks) as epochs:
            for update in epochs.updates(epoch, index, batching=lambda: batching, ranks=ranks):
                if update.epoch == EPOCHS:
                    return planned
                planned.append(update)
        raise AssertionError("the row of epochs ended")

    return make


def rows(update) -> list[tuple[int, ...]]:
    """The targets of an update's micro-batches."""
    return [
        tuple(row.tolist())
        for batch in update.batches
        for row in np.split(batch.target_output_N, np.cumsum(batch.target_lengths_B)[:-1])
    ]


def test_every_epoch_yields_every_pair_once(updates, reversed_words, settled):
    shards = TrainingData.open([reversed_words], settled()).shards
    planned = updates()
    for epoch in range(EPOCHS):
        of_epoch = [update for update in planned if update.epoch == epoch]
        assert [update.index for update in of_epoch] == list(range(len(of_epoch)))
        pairs = [pair for update in of_epoch for pair in update.pairs.tolist()]
        assert sorted(pairs) == list(range(len(shards)))
        targets = Counter(row for update in of_epoch for row in rows(update))
        assert targets == Counter((*shards.pair(pair)[1].tolist(), 3) for pair in range(len(shards)))
    orders = [[update.pairs.tolist() for update in planned if update.epoch == epoch] for epoch in range(EPOCHS)]
    assert orders[0] != orders[1] != orders[2]


def test_ranks_share_each_update_without_a_rest(updates):
    alone, shares = updates(), [updates(Ranks(rank, 3)) for rank in range(3)]
    for whole, *parts in zip(alone, *shares, strict=True):
        assert Counter(rows(whole)) == sum((Counter(rows(part)) for part in parts), Counter())
        assert {part.target_tokens for part in parts} == {whole.target_tokens}


def test_a_start_in_the_middle_yields_the_rest(updates):
    planned = updates()
    middle = next(number for number, update in enumerate(planned) if (update.epoch, update.index) == (1, 2))
    resumed = updates(epoch=1, index=2)
    assert [(u.epoch, u.index, u.pairs.tolist()) for u in resumed] == [
        (u.epoch, u.index, u.pairs.tolist()) for u in planned[middle:]
    ]


STAGES = "training.stages=[{after: 3, weights: [0, 1]}, {after: 8, weights: [2, 0.5]}]"


def test_a_stage_changes_the_weights_at_its_update_wherever_a_run_resumes(reversed_words, other_words, tmp_path):
    folders = [reversed_words, other_words]
    config, _ = resolve_config([(folder, 1.0) for folder in folders], settings=(STAGES, "batching.update_tokens=400"))
    data = TrainingData.open(folders, config)
    size = len(data.sets.parts[0])

    def planned(place=(0, 0, 0), ranks=NO_OTHERS):
        epoch, index, start = place
        with data.epochs(tmp_path, ranks) as epochs:
            return list(itertools.islice(
                epochs.updates(epoch, index, start=start, batching=lambda: PADDED, ranks=ranks), 14 - start - index
            ))  # fmt: skip

    updates = planned()
    firsts = [number for number, update in enumerate(updates) if update.index == 0]
    assert firsts[1] == 3 and 8 in firsts  # the first epoch is longer than three updates
    whose = [{bool(pair < size) for pair in update.pairs.tolist()} for update in updates]
    assert {True, False} == set().union(*whose[:3]) and set().union(*whose[3:8]) == {False}
    assert {True, False} == set().union(*whose[8:])
    twice = Counter(
        pair for update in updates[8:] if update.epoch == updates[8].epoch for pair in update.pairs.tolist()
    )
    assert max(twice.values()) == 2
    for number, update in enumerate(updates, start=1):
        again = planned((update.epoch, update.index + 1, number - update.index - 1))
        assert [rows(one) for one in again] == [rows(one) for one in updates[number:]]
    for whole, *parts in zip(updates, *(planned(ranks=Ranks(rank, 2)) for rank in range(2)), strict=True):
        assert Counter(rows(whole)) == sum((Counter(rows(part)) for part in parts), Counter())


@EITHER
def test_an_update_is_divided_again_as_it_would_have_been(updates, batching, smaller):
    """When the size that fits is learnt, some updates are already prepared."""
    first = [updates(Ranks(rank, 2), batching=batching) for rank in range(2)]
    second = [updates(Ranks(rank, 2), batching=smaller) for rank in range(2)]
    for old, new in zip(first, second, strict=True):
        for update, expected in zip(old, new, strict=True):
            again = update.divided_by(smaller)
            assert rows(again) == rows(expected)
            assert [batch.positions for batch in again.batches] == [batch.positions for batch in expected.batches]
            assert (again.index, again.target_tokens) == (update.index, update.target_tokens)
            assert again.divided_by(smaller) is again
    assert any(len(new.batches) > len(old.batches) for old, new in zip(first[0], second[0], strict=True))
    for old, *new in zip(updates(), *second, strict=True):
        assert Counter(rows(old)) == sum((Counter(rows(part)) for part in new), Counter())


@EITHER
def test_micro_batches_are_prepared_where_they_are_made_and_give_the_same_inputs(
    reversed_words, settled, tmp_path, batching, smaller, monkeypatch
):
    config, threads = settled(), set()
    data, prepare = TrainingData.open([reversed_words], config), type(batching).prepared

    def prepared(self, batch):
        threads.add(threading.current_thread().name)
        return prepare(self, batch)

    monkeypatch.setattr(type(batching), "prepared", prepared)
    with data.epochs(tmp_path, NO_OTHERS) as epochs:
        made = prefetched(epochs.updates(0, 0, batching=lambda: batching, ranks=NO_OTHERS))
        [batch, *_] = next(made).batches
        made.close()
    assert threads == {"batches"}
    assert batch.tokens == (batch.positions if batching is PADDED else 54)
    plain = Batch(**{field.name: getattr(batch, field.name) for field in dataclasses.fields(Batch)})
    found, expected = (model_inputs(one, CPU, PackedSize.of) for one in (batch, plain))
    assert (len(found.target_output_N) > batch.target_tokens) == (batching is FILLED)
    for side, size in (("source", FILLED.source), ("target", FILLED.target)):
        mine, other = getattr(found, side), getattr(expected, side)
        assert batching is PADDED or len(mine.tokens_N) == size.rows
        for name in ("tokens_N", "positions_N"):
            values = getattr(other, name)
            assert torch.equal(getattr(mine, name)[: len(values)], values)
            assert not getattr(mine, name)[len(values) :].any()
        assert torch.equal(mine.cu_seqlens[: len(other.cu_seqlens)], other.cu_seqlens)
    assert torch.equal(found.target_output_N[: batch.target_tokens], expected.target_output_N)


@EITHER
@pytest.mark.parametrize("longest", [1, 7])
def test_the_fullest_micro_batch_is_one_that_the_limits_allow(batching, smaller, longest):
    batch = batching.full_of(longest, 30)
    assert set(batch.source_lengths_B) == set(batch.target_lengths_B) == {longest}
    limit = {PADDED: 50, FILLED: min(50, 9 * longest)}[batching]
    assert limit - longest < batch.source_tokens == batch.target_tokens <= limit
    assert batching.prepared(batch).tokens <= batching.tokens


def test_a_pair_that_exceeds_a_padded_micro_batch_is_tried_alone():
    assert PADDED.full_of(60, 30).source_lengths_B.tolist() == [60]
