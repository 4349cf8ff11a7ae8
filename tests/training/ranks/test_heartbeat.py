"""A rank that sends no more heartbeats is noticed, though it keeps its connections open; a busy one is not."""

import threading
import time

import pytest

from nmt.training.ranks import heartbeat
from nmt.training.ranks.heartbeat import watching_others
from tests.training.rank_processes import start_ranks

FAST = {"FAST_BEATS": "1"}


class Store:
    """A store in this process."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.answers = True

    def add(self, name: str, amount: int) -> int:
        if not self.answers:
            raise RuntimeError("no answer")
        self.values[name] = self.values.get(name, 0) + amount
        return self.values[name]


@pytest.fixture
def lost(monkeypatch):
    """Watch two others as rank 0; returns those that were lost within some seconds."""
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)

    def watch(store, signs, seconds: float = 60.0) -> list[int]:
        found, is_lost = [], threading.Event()

        def note(silent):
            found.extend(silent)
            is_lost.set()

        with watching_others(0, 3, store, note):
            deadline = time.monotonic() + seconds
            while not is_lost.is_set() and time.monotonic() < deadline:
                signs()
                time.sleep(0.01)
        return found

    return watch


def test_a_rank_without_signs_is_lost_and_the_others_are_not(lost):
    store = Store()
    assert lost(store, lambda: store.add("1", 1)) == [2]
    assert store.values["0"] > 1


def test_ranks_that_give_signs_are_not_lost(lost, monkeypatch):
    monkeypatch.setattr(heartbeat, "MISSED_BEATS", 50)
    store = Store()
    assert lost(store, lambda: [store.add(other, 1) for other in "12"], seconds=2.5) == []


def test_with_a_store_that_fails_or_never_answers_all_others_are_lost(lost):
    failing, silent = Store(), Store()
    failing.answers = False
    assert lost(failing, lambda: None) == [1, 2]
    is_over = threading.Event()
    silent.add = lambda name, amount: is_over.wait(60)
    assert lost(silent, lambda: None) == [1, 2]
    is_over.set()


@pytest.mark.slow
def test_when_a_rank_is_stopped_all_others_end_and_name_it(settings, tmp_path, reversed_words):
    ranks = start_ranks(
        3, reversed_words, settings(), tmp_path / "run", tmp_path / "out", "stop", 1, 7, environment=FAST
    )
    main, stopped, third = ranks
    try:
        errors = [rank.finish() for rank in (main, third)]
        assert stopped.process.poll() is None
    finally:
        stopped.process.kill()
        stopped.finish()
    assert [rank.process.returncode for rank in (main, third)] == [1, 1]
    for error, rank in zip(errors, (0, 2), strict=True):
        assert f"rank {rank}: no heartbeat from rank 1 for 5 seconds." in error
        assert "Traceback" not in error


@pytest.mark.slow
def test_a_rank_that_is_busy_for_long_is_waited_for(settings, tmp_path, reversed_words):
    ranks = start_ranks(
        2, reversed_words, settings(), tmp_path / "run", tmp_path / "out", "sleep", 1, 7, environment=FAST
    )
    errors = [rank.finish() for rank in ranks]
    assert [rank.process.returncode for rank in ranks] == [0, 0], errors
