"""The updates of a run: every pair once per epoch, in an order that starts anywhere."""

import dataclasses
import threading
from collections import Counter

import numpy as np
import pytest
import torch

from nmt.data.batching import Batch
from nmt.model.packing import PackedSize
from nmt.training.input.data_sets import TrainingData
from nmt.training.input.feed import prefetched
from nmt.training.input.model_inputs import PreparedBatch, model_inputs
from nmt.training.ranks.exchange import NO_OTHERS, Ranks

EPOCHS = 3


@pytest.fixture
def updates(reversed_words, settled, tmp_path):
    """The updates of the first epochs, as one rank gets them, from a place in the plan on."""

    def make(ranks: Ranks = NO_OTHERS, epoch: int = 0, index: int = 0, size: int = 50, *, pads: bool = True) -> list:
        config = settled()
        data = TrainingData.open([reversed_words], config)
        planned = []
        with data.epochs(config, tmp_path, ranks) as epochs:
            for update in epochs.updates(epoch, index, micro_batch_tokens=lambda: size, ranks=ranks, pads=pads):
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


@pytest.mark.parametrize("pads", [True, False])
def test_an_update_is_dealt_again_as_it_would_have_been_dealt(updates, pads):
    """When the size that fits is learnt, some updates are already prepared."""
    shares = [updates(Ranks(rank, 2), pads=pads) for rank in range(2)]
    smaller = [updates(Ranks(rank, 2), pads=pads, size=20) for rank in range(2)]
    for old, new in zip(shares, smaller, strict=True):
        for update, expected in zip(old, new, strict=True):
            again = update.with_micro_batches_of(20)
            assert rows(again) == rows(expected)
            assert [batch.positions for batch in again.batches] == [batch.positions for batch in expected.batches]
            assert (again.index, again.target_tokens) == (update.index, update.target_tokens)
            assert again.with_micro_batches_of(20) is again
    assert any(len(new.batches) > len(old.batches) for old, new in zip(shares[0], smaller[0], strict=True))
    for old, *new in zip(updates(), *smaller, strict=True):
        assert Counter(rows(old)) == sum((Counter(rows(part)) for part in new), Counter())


@pytest.mark.parametrize("pads", [True, False])
def test_micro_batches_are_prepared_where_they_are_made_and_give_the_same_inputs(
    reversed_words, settled, tmp_path, pads
):
    config = settled()
    data = TrainingData.open([reversed_words], config)
    cpu, threads = torch.device("cpu"), set()

    def size_of(lengths):
        return PackedSize.of(lengths, rows_per_octave=2)

    def prepare(batch):
        threads.add(threading.current_thread().name)
        return PreparedBatch.of(batch, size_of, cpu)

    with data.epochs(config, tmp_path, NO_OTHERS) as epochs:
        made = prefetched(
            epochs.updates(0, 0, micro_batch_tokens=lambda: 50, ranks=NO_OTHERS, pads=pads, prepare=prepare)
        )
        [batch, *_] = next(made).batches
        made.close()
    assert threads == {"batches"}
    plain = Batch(*(getattr(batch, field.name) for field in dataclasses.fields(Batch)))
    found, expected = (model_inputs(one, cpu, size_of) for one in (batch, plain))
    assert batch.inputs is not None
    for side in ("source", "target"):
        for name in ("tokens_N", "positions_N", "cu_seqlens"):
            assert torch.equal(getattr(getattr(found, side), name), getattr(getattr(expected, side), name))
    assert torch.equal(found.target_output_N, expected.target_output_N)
