"""The pool: fair, bounded, and whole whatever happens to a job."""

import threading
import time
from collections.abc import Sequence
from typing import NoReturn

import pytest

from nmt.errors import DataError
from nmt.server import pool as module
from nmt.server.pool import BusyError, ClosedError, Job, Pool
from nmt.translation.segment import Line, Segment
from tests.server.doubles import SECONDS, Capitals, wait_for


def job(translator, *texts, notify=lambda: None):
    return Job(translator, translator.prepare(list(map(Line, texts))), notify)


@pytest.fixture
def translator():
    return Capitals()


@pytest.fixture
def make(translator):
    """Makes pools, which are closed at the end."""
    pools = []

    def make(workers=1, **options):
        pools.append(Pool(workers, **{"max_waiting": 1_000, **options}))
        return pools[-1]

    yield make
    translator.gate.set()
    for pool in pools:
        pool.close()


def wait(*jobs: Job) -> None:
    wait_for(lambda: all(one.is_done for one in jobs))


def occupy(pool: Pool, translator: Capitals) -> Job:
    """Keep a worker busy until the gate opens."""
    translator.gate.clear()
    pool.submit(first := job(translator, "first"))
    wait_for(lambda: len(translator.batches) == 1)
    return first


def batches_behind(pool: Pool, translator: Capitals, *jobs: Job) -> list[list[str]]:
    """The batches of jobs that wait together for the only worker."""
    occupy(pool, translator)
    for one in jobs:
        pool.submit(one)
    translator.gate.set()
    wait(*jobs)
    return translator.batches[1:]


def test_a_job_is_searched_and_its_owner_is_told(make, translator):
    pool, told = make(), threading.Event()
    # A segment without pieces is searched, too: it may have had unknown characters.
    pool.submit(one := job(translator, "a b", "", "c", notify=told.set))
    assert told.wait(SECONDS)
    wait(one)
    assert [part.candidates[0].text for line in one.found for part in line] == ["A B", "", "C"]
    assert pool.waiting == 0


def test_a_job_without_segments_is_done_at_once_even_if_the_queue_is_full(make, translator):
    pool, told = make(max_waiting=2), threading.Event()
    occupy(pool, translator)
    pool.submit(job(translator, "a b c"))
    pool.submit(Job(translator, [], told.set))
    assert told.is_set()


def test_a_long_text_does_not_hold_up_a_short_one(make, translator):
    long = job(translator, *[f"long {number}" for number in range(200)])
    assert "short" in batches_behind(make(), translator, long, job(translator, "short"))[0]


def test_jobs_that_wait_share_a_batch_in_turn(make, translator):
    jobs = [job(translator, *[f"{name}{number}" for number in range(3)]) for name in "abc"]
    assert batches_behind(make(), translator, *jobs) == [["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]]


def test_a_batch_has_one_model_and_models_take_turns(make, translator):
    other = Capitals(batch_tokens=4, batches=translator.batches)
    translator.batch_tokens = 4
    jobs = [job(translator, "a", "b", "c", "d"), job(other, "x", "y", "z", "w"), job(translator, "1", "2")]
    found = batches_behind(make(), translator, *jobs)
    assert found == [["a", "1"], ["x", "y"], ["b", "2"], ["z", "w"], ["c", "d"]]


def test_a_batch_holds_what_the_translator_takes_and_a_single_job_more_than_the_queue(make, translator):
    found = batches_behind(make(max_waiting=3), translator, job(translator, *["a b c d"] * 30))
    assert set(map(len, found[:-1])) == {8}  # 40 pieces, each line with eos


def test_workers_search_at_the_same_time_and_share_what_waits(make, translator):
    pool = make(workers=2)
    translator.gate.clear()
    pool.submit(one := job(translator, *"abcdefghij"))
    wait_for(lambda: len(translator.batches) == 2)
    translator.gate.set()
    wait(one)
    assert list(map(len, translator.batches)) == [5, 5]


def test_a_worker_leaves_a_share_to_another_that_is_busy(make, translator):
    pool = make(workers=2)
    first = occupy(pool, translator)
    pool.submit(one := job(translator, *"abcdefghi"))
    wait_for(lambda: len(translator.batches) == 2)
    assert translator.batches == [["first"], [*"abcde"]]
    translator.gate.set()
    wait(first, one)


def test_a_worker_gives_clients_a_moment_to_ask_again(make, translator, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 1e6)
    monkeypatch.setattr(module, "_LONGEST_PATIENCE", SECONDS)
    pool = make()
    first, again = ([job(translator, text) for text in texts] for texts in ("abc", "xyz"))
    batches_behind(pool, translator, *first)
    for one in again:
        pool.submit(one)
        time.sleep(0.02)
    wait(*again)
    assert translator.batches == [["first"], [*"abc"], [*"xyz"]]


def test_a_single_client_waits_for_nobody(make, translator, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 1e6)
    monkeypatch.setattr(module, "_LONGEST_PATIENCE", 2 * SECONDS)
    pool = make()
    for text in "abc":
        pool.submit(one := job(translator, text))
        wait(one)
    assert translator.batches == [["a"], ["b"], ["c"]]


def test_the_queue_is_bounded(make, translator):
    pool = make(max_waiting=6)
    first = occupy(pool, translator)
    pool.submit(job(translator, "a b c"))
    with pytest.raises(BusyError) as refused:
        pool.submit(job(translator, "d e"))
    assert refused.value.retry_after >= 1
    pool.check_room()
    pool.submit(last := job(translator, "f"))
    assert pool.waiting == 6
    with pytest.raises(BusyError):
        pool.check_room()
    translator.gate.set()
    wait(first, last)


def test_a_forgotten_job_is_not_searched(make, translator):
    pool = make()
    translator.batch_tokens = 2
    translator.gate.clear()
    one, two, other = job(translator, "one", "two", "three"), job(translator, "a", "b"), job(translator, "other")
    pool.submit(one)
    wait_for(lambda: len(translator.batches) == 1)  # "one" is searched
    pool.submit(two)
    pool.submit(other)
    for forgotten in (one, two):
        pool.forget(forgotten)
    assert pool.waiting == 2
    translator.gate.set()
    wait(other)
    assert translator.batches == [["one"], ["other"]]


def test_a_job_that_fails_does_not_fail_its_neighbours(make, translator, capsys):
    jobs = [job(translator, "good", "better"), job(translator, "fine", "fail"), job(translator, "well")]
    batches_behind(pool := make(), translator, *jobs)
    assert [type(one.error) for one in jobs] == [type(None), ZeroDivisionError, type(None)]
    assert [part.candidates[0].text for [part] in jobs[0].found] == ["GOOD", "BETTER"]
    assert "ZeroDivisionError" in capsys.readouterr().err
    pool.submit(last := job(translator, "last"))
    wait(last)
    assert last.error is None


def test_a_users_error_is_not_logged(make, capsys):
    class Refusing(Capitals):
        def search(self, segments: Sequence[Segment]) -> NoReturn:
            raise DataError("too long")

    make().submit(one := job(Refusing(), "a"))
    wait(one)
    assert str(one.error) == "too long"
    assert capsys.readouterr().err == ""


def test_closing_finishes_what_waits(translator):
    pool = Pool(1, max_waiting=1_000)
    occupy(pool, translator)
    jobs = [job(translator, *["a b c"] * 40) for _ in range(3)]
    for one in jobs:
        pool.submit(one)
    closing = threading.Thread(target=pool.close)
    closing.start()
    translator.gate.set()
    closing.join(SECONDS)
    assert all(one.is_done and one.error is None for one in jobs)
    with pytest.raises(ClosedError):
        pool.submit(job(translator, "late"))


def test_what_waits_is_dropped_and_what_is_searched_may_be_abandoned(make, translator, capsys):
    pool = make()
    occupy(pool, translator)
    translator.batch_tokens = 2
    for _ in range(2):
        pool.submit(job(translator, "one", "two"))
    pool.drop()
    assert pool.waiting == 0
    pool.submit(last := job(translator, "abandon"))
    translator.gate.set()
    pool.close()
    assert translator.batches == [["first"], ["abandon"]]
    assert not last.is_done
    assert capsys.readouterr().err == ""


def test_the_observer_sees_each_batch_and_its_time(make, translator):
    seen = []
    pool = make(observe=lambda batch, seconds: seen.append((len(batch), seconds)))
    one = occupy(pool, translator)
    time.sleep(0.05)
    translator.gate.set()
    wait(one)
    pool.submit(two := job(translator, "a", "b"))
    wait(two)
    pool.close()
    assert [count for count, _ in seen] == [1, 2]
    assert seen[0][1] >= 0.05
