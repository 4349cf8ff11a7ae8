"""Batches hold every sentence once, keep to their size, and share out evenly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.translation.batches import batches_of

LENGTHS = st.lists(st.integers(1, 60), max_size=80)


@given(LENGTHS, st.integers(1, 200), st.integers(1, 5))
def test_every_sentence_is_in_one_batch_that_keeps_to_its_size(lengths, most, workers):
    batches = batches_of(lengths, most, workers)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= most
    in_order = [lengths[index] for batch in batches for index in batch]
    assert in_order == sorted(lengths, reverse=True)


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_workers_get_as_many_batches_of_like_size(workers):
    lengths = [5 + index % 23 for index in range(500)]
    batches = batches_of(lengths, 1_000, workers)
    assert len(batches) % workers == 0
    sizes = [len(batch) * lengths[batch[0]] for batch in batches]
    assert min(sizes) > 0.8 * max(sizes)


def test_what_fits_into_one_batch_is_not_divided():
    assert batches_of([3, 9, 5], 27, workers=4) == [[1, 2, 0]]
    assert batches_of([], 27) == []
