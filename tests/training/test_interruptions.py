"""A run that is disturbed while it saves, validates, waits or shares its folder loses nothing, and says why it ends."""

import json
import os
import re
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.checkpoint.run_folder import RunFolder, checkpoints
from nmt.errors import CheckpointError
from nmt.io.locking import exclusive
from nmt.io.writing import WriteError
from nmt.training import run as run_module
from nmt.training import saving, stopping
from nmt.training.input.feed import Epochs
from nmt.training.progress import Ending
from tests.processes import SECONDS
from tests.training.rank_processes import start_ranks


def scores(run: Path) -> dict[str, dict[str, float]]:
    return json.loads((run / "last" / "training.json").read_text())["scores"]


def signal_self(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture
def signal_while_saving(monkeypatch):
    """Send a second signal while a checkpoint is saved, which takes a moment longer."""
    began, sent = threading.Event(), threading.Event()

    def save_slowly(*arguments, **options):
        began.set()
        assert sent.wait(SECONDS)
        time.sleep(0.2)
        save_bundle(*arguments, **options)

    def send(number: int) -> None:
        began.wait()
        signal_self(number)
        sent.set()

    monkeypatch.setattr(saving, "save_bundle", save_slowly)
    return lambda number=signal.SIGINT: threading.Thread(target=send, args=(number,)).start()


@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGINT, 600.0), (signal.SIGHUP, 0.0)])
def test_the_same_signal_by_two_ways_and_a_second_hangup_do_not_cut_a_save_short(
    run_training, tmp_path, listener, signal_while_saving, monkeypatch, number, seconds
):
    monkeypatch.setattr(stopping, "SECONDS_OF_ONE_SIGNAL", seconds)

    def twice(update):
        if update == 7:
            signal_self(number)
            signal_while_saving(number)

    listener.at_update = twice
    outcome = run_training(tmp_path / "run", "checkpoints.every_updates=100")
    assert (outcome.ending, outcome.stopped_by) == (Ending.INTERRUPTED, number)
    load_bundle(RunFolder(tmp_path / "run").checkpoint(7))


def test_a_second_signal_acts_at_once_and_what_is_being_saved_is_whole(
    run_training, tmp_path, listener, signal_while_saving, monkeypatch
):
    monkeypatch.setattr(stopping, "SECONDS_OF_ONE_SIGNAL", 0.0)

    def twice(update):
        if update == 7:
            signal_self()
            signal_while_saving()

    listener.at_update = twice
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path / "run", "checkpoints.every_updates=100")
    for thread in threading.enumerate():
        if thread.name == "checkpoint":
            thread.join()
    load_bundle(RunFolder(tmp_path / "run").checkpoint(7))


def test_a_signal_after_the_last_save_does_not_cut_the_end_short(run_training, tmp_path, listener, monkeypatch):
    @contextmanager
    def ended_by_a_signal(*arguments):
        yield
        signal_self(signal.SIGTERM)  # as the watch over the launcher sends it, to a rank that was told to stop before

    monkeypatch.setattr(run_module, "process_group", ended_by_a_signal)
    monkeypatch.setattr(stopping, "SECONDS_OF_ONE_SIGNAL", 600.0)
    listener.at_update = lambda update: signal_self(signal.SIGTERM) if update == 7 else None
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("acted at once"))
    try:
        outcome = run_training(tmp_path / "run")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (outcome.ending, outcome.progress.update) == (Ending.INTERRUPTED, 7)


def test_a_signal_while_the_loop_waits_for_data_saves(run_training, tmp_path, monkeypatch, listener):
    updates, is_waiting = Epochs.updates, threading.Event()

    def stuck(self, *arguments, **options):
        for planned in updates(self, *arguments, **options):
            if planned.index == 7:
                is_waiting.wait(60)
            yield planned

    monkeypatch.setattr(Epochs, "updates", stuck)
    listener.at_update = lambda update: (
        threading.Timer(0.2, signal_self, [signal.SIGTERM]).start() if update == 7 else None
    )
    outcome = run_training(tmp_path / "run")
    is_waiting.set()
    assert (outcome.ending, outcome.stopped_by) == (Ending.INTERRUPTED, signal.SIGTERM)
    assert max(checkpoints(tmp_path / "run")) == 7


def test_after_a_damaged_checkpoint_newer_than_the_rest_what_is_saved_is_kept(run_training, tmp_path, listener):
    run = tmp_path / "run"
    settled = ["checkpoints.keep_last=1", "checkpoints.keep_best=2", "validation.every_updates=5"]
    run_training(run, *settled, "training.max_updates=10")
    assert sorted(checkpoints(run)) == [5, 10]
    damaged = RunFolder(run).checkpoint(10) / "model.safetensors"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    listener.updates.clear()
    run_training(run, *settled, "checkpoints.every_updates=1", "training.max_updates=7")
    assert listener.updates == [6, 7]
    assert any(str(damaged) in notice and "damaged" in notice for notice in listener.notices)
    assert (run / "last").resolve() == RunFolder(run).checkpoint(7).resolve()
    assert {path.name for path in (run / "checkpoints").iterdir()} >= {"step-00000007", "damaged-step-00000010"}


def test_two_processes_do_not_train_in_one_folder(run_training, tmp_path):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=5")
    before = (run / "metrics.jsonl").read_bytes()
    with (
        exclusive(run / ".lock", wait=False),
        pytest.raises(CheckpointError, match=rf"another process .* \(process {os.getpid()} on "),
    ):
        run_training(run)
    assert (run / "metrics.jsonl").read_bytes() == before
    assert run_training(run).progress.update == 20


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), WriteError("x", "Input/output error")])
def test_the_links_lead_to_the_new_checkpoint_before_old_ones_are_removed(
    run_training, tmp_path, monkeypatch, listener, error
):
    run = tmp_path / "run"

    def fails(*arguments):
        raise error

    monkeypatch.setattr(saving, "prune", fails)
    assert run_training(run).progress.update == 20
    assert (run / "last").resolve() == RunFolder(run).checkpoint(20).resolve()
    assert any("could not be updated" in notice for notice in listener.notices)


@pytest.fixture
def failing_ranks(reversed_words, tmp_path):
    """Run two ranks of which one is disturbed; what they said. When one fails the other is ended, as by torchrun."""

    def run(settings: Path, *disturbance: object) -> list[str]:
        ranks = start_ranks(2, reversed_words, settings, tmp_path / "run", tmp_path / "out", *disturbance)
        processes = [rank.process for rank in ranks]
        deadline = time.monotonic() + SECONDS
        while all(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)  # a launcher takes a moment to notice, too; the other has lost touch by then
        for process in processes:
            process.terminate()
        errors = [rank.finish() for rank in ranks]
        assert all(process.returncode != 0 for process in processes)
        return errors

    return run


def test_infinite_gradients_of_one_rank_end_all_with_what_was_learnt_saved(failing_ranks, settings, tmp_path):
    errors = failing_ranks(settings("training.max_skipped=3"), "poison", 1, 8)
    assert any("3 updates in a row had gradients that are not finite" in error for error in errors), errors
    load_bundle(RunFolder(tmp_path / "run").checkpoint(10))


def test_a_signal_to_one_rank_ends_the_wait_of_another_for_room(reversed_words, settings, tmp_path):
    ranks = start_ranks(2, reversed_words, settings(), tmp_path / "run", tmp_path / "out", "crowded", 0, 7)
    order, deadline = tmp_path / "out.1.order", time.monotonic() + SECONDS
    while (not order.exists() or order.read_text().count("\n") < 20) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)  # all updates are made
    assert ranks[0].process.poll() is None
    ranks[1].process.terminate()
    assert "rank 0: " in (error := ranks[0].finish()) and "cannot be written (no room)" in error
    ranks[1].finish()


def test_a_full_disk_of_the_main_rank_ends_all_and_names_it(failing_ranks, settings, tmp_path):
    errors = failing_ranks(settings(), "full", 0, 7)
    assert "rank 0: " in errors[0]
    assert "cannot be written" in errors[0]
    # It lost touch, which is not the cause; torch itself may warn of that, with names such as c10::Error.
    assert not re.search(r"(?m)^(\w*Error\b|error: )", errors[1])
    assert list(checkpoints(tmp_path / "run")) == [5]
    load_bundle(RunFolder(tmp_path / "run").checkpoint(5))
