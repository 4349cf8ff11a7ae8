"""Work shared out among threads comes back in its order, and ends with what went wrong."""

import threading
import time

import pytest
import torch

from nmt.translation.workers import AbandonedError, Workers


@pytest.mark.parametrize("count", [1, 2, None])
def test_results_come_in_the_order_of_the_items(count):
    def slow_first(item: int) -> int:
        time.sleep(0.05 if item == 0 else 0.0)
        return item * item

    assert list(Workers(3, count).map(slow_first, range(7))) == [item * item for item in range(7)]


def test_items_are_worked_on_at_the_same_time_each_by_its_share():
    together = threading.Barrier(2, timeout=10)

    def meet(item: int) -> int:
        together.wait()
        return torch.get_num_threads()

    before = torch.get_num_threads()
    try:
        assert list(Workers(4, set_threads=torch.set_num_threads).map(meet, range(2))) == [2, 2]
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


def test_threads_that_begin_later_are_not_told_of_a_share():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        list(Workers(4, set_threads=torch.set_num_threads).map(lambda item: item, range(6)))
        later = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert later == [4]
    finally:
        torch.set_num_threads(before)


def test_there_are_no_more_workers_than_threads():
    assert Workers(2, 8).count == 2


def test_a_single_item_gets_the_whole_processor():
    assert list(Workers(4).map(lambda item: threading.current_thread(), [0])) == [threading.current_thread()]


def test_an_error_comes_in_its_place_and_nothing_more_is_begun():
    begun = []

    def fail(item: int) -> int:
        begun.append(item)
        if item == 1:
            raise ValueError("a mistake of this test")
        time.sleep(0.02)
        return item

    results = Workers(2).map(fail, range(100))
    assert next(results) == 0
    with pytest.raises(ValueError, match="a mistake of this test"):
        next(results)
    assert len(begun) < 100


def test_what_nobody_waits_for_is_left_when_it_looks_up():
    workers, has_begun, ends = Workers(2), threading.Event(), []

    def work(item: int) -> int:
        if item == 0:
            assert has_begun.wait(timeout=10)
            raise ValueError("a mistake of this test")
        has_begun.set()
        try:
            while True:  # would go on for ever
                workers.check_abandoned()
                time.sleep(0.01)
        except AbandonedError:
            ends.append(item)
            raise

    with pytest.raises(ValueError, match="a mistake of this test"):
        list(workers.map(work, range(2)))
    assert ends == [1]
    # They can be used again, by one as by several, and at the same time.
    for items in ([3], [3, 4]):
        assert list(workers.map(lambda item: workers.check_abandoned() or item, items)) == items
    inner = list(
        workers.map(lambda item: list(workers.map(lambda x: workers.check_abandoned() or x, [item, 7])), [3, 4])
    )
    assert inner == [[3, 7], [4, 7]]


def test_shared_workers_are_the_threads_that_map():
    workers = Workers(2, shared=True)
    assert set(workers.map(lambda item: threading.get_ident(), range(3))) == {threading.get_ident()}
    assert (workers.count, workers.of_one_call) == (2, 1)
