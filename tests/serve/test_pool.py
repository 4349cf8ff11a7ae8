"""The pool: fair, bounded, and whole whatever happens to a job."""

import threading
import time

import pytest

from nmt.errors import DataError
from nmt.server import pool as module
from nmt.server.pool import BusyError, ClosedError, Job, Pool
from nmt.translation.segment import Segment
from tests.serve.doubles import SECONDS, Capitals


def job(translator, *texts, notify=lambda: None):
    return Job(translator, [segment for [segment] in translator.prepare(texts)], notify)


@pytest.fixture
def translator():
    return Capitals()


@pytest.fixture
def make():
    """Makes pools, which are closed at the end."""
    pools = []

    def make(translator, workers=1, **options):
        pools.append((translator, Pool(workers, **{"max_waiting": 1_000, **options})))
        return pools[-1][1]

    yield make
    for translator, pool in pools:
        translator.gate.set()
        pool.close()


def wait(one: Job) -> None:
    done = threading.Event()
    before, one.notify = one.notify, lambda: (before(), one.is_done and done.set())
    if not one.is_done:
        assert done.wait(SECONDS)


def occupy(pool: Pool, translator: Capitals) -> Job:
    """Keep the only worker busy until the gate opens."""
    translator.gate.clear()
    first = job(translator, "first")
    pool.submit(first)
    while not translator.batches:
        pass
    return first


def test_a_job_is_searched_and_its_owner_is_told(make, translator):
    pool, told = make(translator), threading.Event()
    one = job(translator, "a b", "", "c", notify=told.set)
    pool.submit(one)
    assert told.wait(SECONDS)
    wait(one)
    assert [segment.candidates[0].text for segment in one.segments] == ["A B", "", "C"]
    assert pool.waiting == 0


def test_a_job_without_segments_is_done_at_once_even_if_the_queue_is_full(make, translator):
    pool, told = make(translator, max_waiting=2), threading.Event()
    occupy(pool, translator)
    pool.submit(job(translator, "a b c"))
    pool.submit(Job(translator, [], told.set))
    assert told.is_set()


def test_a_segment_without_pieces_is_searched_too(make, translator):
    # It may have had unknown characters, which come back into its translation.
    make(translator).submit(blank := job(translator, ""))
    wait(blank)
    assert translator.batches == [[""]]


def test_a_long_text_does_not_hold_up_a_short_one(make, translator):
    pool = make(translator)
    occupy(pool, translator)
    long = job(translator, *[f"long {number}" for number in range(200)])
    short = job(translator, "short")
    pool.submit(long)
    pool.submit(short)
    translator.gate.set()
    wait(short)
    assert "short" in translator.batches[1]
    wait(long)


def test_jobs_that_wait_share_a_batch_in_turn(make, translator):
    pool = make(translator)
    occupy(pool, translator)
    jobs = [job(translator, *[f"{name}{number}" for number in range(3)]) for name in "abc"]
    for one in jobs:
        pool.submit(one)
    translator.gate.set()
    for one in jobs:
        wait(one)
    assert translator.batches[1] == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_a_batch_has_one_model_and_models_take_turns(make, translator):
    other, pool = Capitals(batch_tokens=4, batches=translator.batches), make(translator)
    translator.batch_tokens = 4
    occupy(pool, translator)
    jobs = [job(translator, "a", "b", "c", "d"), job(other, "x", "y", "z", "w"), job(translator, "1", "2")]
    for one in jobs:
        pool.submit(one)
    translator.gate.set()
    for one in jobs:
        wait(one)
    assert translator.batches[1:] == [["a", "1"], ["x", "y"], ["b", "2"], ["z", "w"], ["c", "d"]]


def test_a_batch_holds_what_the_translator_takes(make, translator):
    pool = make(translator)
    occupy(pool, translator)
    one = job(translator, *["a b c d"] * 30)
    pool.submit(one)
    translator.gate.set()
    wait(one)
    assert {len(batch) for batch in translator.batches[1:-1]} == {8}  # 40 pieces, each line with eos


def test_several_workers_search_at_the_same_time(make, translator):
    pool = make(translator, workers=2)
    translator.gate.clear()
    jobs = [job(translator, "one"), job(translator, "other")]
    for one in jobs:
        pool.submit(one)
    while len(translator.batches) < 2:
        pass
    translator.gate.set()
    for one in jobs:
        wait(one)


def test_workers_share_what_waits(make, translator):
    pool = make(translator, workers=2)
    translator.gate.clear()
    pool.submit(one := job(translator, *"abcdefghij"))
    while len(translator.batches) < 2:
        pass
    translator.gate.set()
    wait(one)
    assert list(map(len, translator.batches)) == [5, 5]


def test_a_worker_leaves_a_share_to_another_that_is_busy(make, translator):
    pool = make(translator, workers=2)
    first = occupy(pool, translator)
    pool.submit(one := job(translator, *"abcdefghi"))
    while len(translator.batches) < 2:
        pass
    assert translator.batches == [["first"], [*"abcde"]]
    translator.gate.set()
    wait(first)
    wait(one)


def test_a_worker_gives_clients_a_moment_to_ask_again(make, translator, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 1e6)
    monkeypatch.setattr(module, "_LONGEST_PATIENCE", SECONDS)
    pool = make(translator)
    occupy(pool, translator)
    first, again = ([job(translator, text) for text in texts] for texts in ("abc", "xyz"))
    for one in first:
        pool.submit(one)
    translator.gate.set()
    for one in first:
        wait(one)
    for one in again:
        pool.submit(one)
        time.sleep(0.02)
    for one in again:
        wait(one)
    assert translator.batches == [["first"], [*"abc"], [*"xyz"]]


def test_a_single_client_waits_for_nobody(make, translator, monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 1e6)
    monkeypatch.setattr(module, "_LONGEST_PATIENCE", 2 * SECONDS)
    pool = make(translator)
    for text in "abc":
        pool.submit(one := job(translator, text))
        wait(one)
    assert translator.batches == [["a"], ["b"], ["c"]]


def test_the_queue_is_bounded(make, translator):
    pool = make(translator, max_waiting=6)
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
    wait(first)
    wait(last)


def test_a_job_that_is_larger_than_the_queue_is_taken_when_nothing_waits(make, translator):
    pool = make(translator, max_waiting=3)
    pool.submit(one := job(translator, *["a b"] * 50))
    wait(one)


def test_a_forgotten_job_is_not_searched(make, translator):
    pool = make(translator)
    occupy(pool, translator)
    one, other = job(translator, "one", "two"), job(translator, "other")
    pool.submit(one)
    pool.submit(other)
    pool.forget(one)
    assert pool.waiting == 2
    translator.gate.set()
    wait(other)
    assert translator.batches == [["first"], ["other"]]


def test_a_job_is_forgotten_while_its_batch_is_searched(make, translator):
    pool = make(translator)
    translator.batch_tokens = 2
    translator.gate.clear()
    pool.submit(one := job(translator, "one", "two", "three"))
    while not translator.batches:
        pass
    pool.forget(one)
    assert pool.waiting == 0
    pool.submit(other := job(translator, "other"))
    translator.gate.set()
    wait(other)
    assert translator.batches == [["one"], ["other"]]


def test_a_job_that_fails_does_not_fail_its_neighbours(make, translator, capsys):
    pool = make(translator)
    occupy(pool, translator)
    jobs = [job(translator, "good", "better"), job(translator, "fine", "fail"), job(translator, "well")]
    for one in jobs:
        pool.submit(one)
    translator.gate.set()
    for one in jobs:
        wait(one)
    assert [type(one.error) for one in jobs] == [type(None), ZeroDivisionError, type(None)]
    assert [segment.candidates[0].text for segment in jobs[0].segments] == ["GOOD", "BETTER"]
    assert "ZeroDivisionError" in capsys.readouterr().err
    pool.submit(last := job(translator, "last"))
    wait(last)
    assert last.error is None


def test_a_users_error_is_not_logged(make, capsys):
    class Refusing(Capitals):
        def search(self, segments: list[Segment]) -> None:
            raise DataError("too long")

    translator = Refusing()
    make(translator).submit(one := job(translator, "a"))
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
    pool = make(translator)
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
    pool = make(translator, observe=lambda batch, seconds: seen.append((len(batch), seconds)))
    one = occupy(pool, translator)
    time.sleep(0.05)
    translator.gate.set()
    wait(one)
    pool.submit(two := job(translator, "a", "b"))
    wait(two)
    pool.close()
    assert [count for count, _ in seen] == [1, 2]
    assert seen[0][1] >= 0.05
