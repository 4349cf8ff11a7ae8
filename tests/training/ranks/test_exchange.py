"""Many ranks make the updates that one makes, share the work, and end together."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nmt.errors import ConfigError, TrainingError
from nmt.io.locking import holder
from nmt.training.ranks import exchange
from nmt.training.ranks.exchange import LostPeerError, Ranks
from tests.commands import run_here
from tests.training.conftest import assert_same, records, saved
from tests.training.rank_processes import SCRIPT, start_ranks
from tests.training.ranks.test_launch import forked

EXACT = ["training.precision=fp64", "model.dropout=0", "logging.every_updates=1"]


def distance(one, other) -> float:
    return np.linalg.norm(one["parameters"] - other["parameters"]) / np.linalg.norm(other["parameters"])


def order(path: Path) -> dict[int, list[int]]:
    """The pairs of each update, as written last."""
    lines = [line.split(maxsplit=1) for line in path.open()]
    return {int(update): json.loads(rest[: rest.index("]") + 1]) for update, rest in lines}


def hashes(path: Path) -> dict[int, str]:
    """A hash of the parameters after each update."""
    return {int(line.split()[0]): line.split()[-1] for line in path.open()}


def test_two_ranks_learn_what_one_learns(run_ranks, settings, tmp_path):
    exact = settings(*EXACT)
    [one], two = run_ranks(1, exact, "alone"), run_ranks(2, exact, "together")
    assert int(one["update"]) == int(two[0]["update"]) == 20
    assert distance(two[0], one) <= 1e-9
    assert np.array_equal(two[0]["parameters"], two[1]["parameters"])
    assert order(tmp_path / "alone-1.0.order") == order(tmp_path / "together-2.0.order")
    alone, together = (records(tmp_path / name, "validation") for name in ("alone", "together"))
    for theirs, ours in zip(alone, together, strict=True):
        assert ours["valid_loss"] == pytest.approx(theirs["valid_loss"], rel=1e-9)
        assert ours["valid_bleu"] == theirs["valid_bleu"]
        assert ours["samples"] == theirs["samples"]
    alone, together = (records(tmp_path / name, "update") for name in ("alone", "together"))
    assert [r["loss"] for r in together] == pytest.approx([r["loss"] for r in alone], rel=1e-9)
    assert [r["target_tokens"] for r in together] == [r["target_tokens"] for r in alone]
    assert all(len(r["rank_target_tokens_per_second"]) == 2 for r in together)
    assert all(max(r["rank_target_tokens_per_second"]) > 0 for r in together)


def test_two_ranks_learn_the_same_adapters(monkeypatch, settings, tmp_path, reversed_words):
    forked(monkeypatch, tmp_path)
    exact = ["--data", reversed_words, "--config", settings(*EXACT, "validation.bleu=false"), "--max-updates", "5"]
    run_here(["train", *exact, "--out", tmp_path / "general"])
    adapting = ["--init-from", tmp_path / "general", "--set", "training.adapter_rank=2"]
    for count in (1, 2):
        run_here(["train", *exact, *adapting, "--nproc", str(count), "--out", tmp_path / str(count)])
    one, two = (load_file(tmp_path / f"{count}/last/training.safetensors") for count in (1, 2))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-9, atol=1e-9)
    assert any(tensor.any() for name, tensor in one.items() if name.startswith("learnt.") and name.endswith(".up"))


SLOW_RANK = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
import torch
from nmt.training.ranks.exchange import process_group, ranks_of_environment

ranks, saved = ranks_of_environment(), Path({folder!r}, "saved")
with process_group(ranks, torch.device("cpu")):
    if ranks.is_main:
        time.sleep(0.5)  # as when its last checkpoint is still being written
        saved.touch()
sys.exit(not saved.exists())
"""


def test_a_rank_leaves_only_when_the_slowest_does(tmp_path):
    """The launcher ends the others some time after the first has left."""
    program = tmp_path / "program.py"
    program.write_text(SLOW_RANK.format(root=str(SCRIPT.parents[2]), folder=str(tmp_path)))
    ranks = start_ranks(2, script=program)
    errors = [rank.finish() for rank in ranks]
    assert [rank.process.returncode for rank in ranks] == [0, 0], errors


@pytest.mark.slow
def test_three_ranks_with_fewer_pairs_than_ranks_learn_the_same(run_ranks, settings):
    # Updates of a few pairs: some ranks get none of them.
    small = settings(*EXACT, "batching.update_tokens=8", "batching.group_tokens=8")
    [one], three = run_ranks(1, small, "alone"), run_ranks(3, small, "together")
    assert distance(three[2], one) <= 1e-9


@pytest.mark.slow
def test_ranks_that_compile_learn_the_same(settings, tmp_path, reversed_words):
    def parameters(count: int, *changes: str):
        name = f"{count}-{len(changes)}"
        arguments = reversed_words, settings(*EXACT, *changes), tmp_path / name, tmp_path / f"out-{name}"
        ranks = start_ranks(count, *arguments, environment={"LIKE_NCCL": "1", "GRAPHS_AS_THEY_ARE": "1"})
        errors = [rank.finish() for rank in ranks]
        assert [rank.process.returncode for rank in ranks] == [0] * count, errors
        return [np.load(f"{arguments[-1]}.{rank}.npz") for rank in range(count)]

    [one], two = parameters(1), parameters(2, "training.compile=true")
    assert distance(two[0], one) <= 1e-9
    assert np.array_equal(two[0]["parameters"], two[1]["parameters"])


def test_a_signal_to_one_rank_saves_and_ends_all_at_the_same_update_and_they_resume_bit_for_bit(
    run_ranks, settings, tmp_path
):
    plain = settings("validation.bleu=false")
    two = run_ranks(2, plain, "run", "terminate", 1, 7)
    assert [str(rank["ending"]) for rank in two] == ["INTERRUPTED"] * 2
    assert [int(rank["update"]) for rank in two] == [7, 7]
    assert (tmp_path / "run" / "last").resolve().name == "step-00000007"
    run_ranks(2, plain, "run")
    run_ranks(2, plain, "straight")
    assert_same(saved(tmp_path / "straight", 20), saved(tmp_path / "run", 20))


@pytest.mark.slow
def test_ranks_whose_devices_have_other_names_resume_with_one_size_of_micro_batches(run_ranks, settings, monkeypatch):
    monkeypatch.setenv("OWN_NAMES", "1")
    chosen = settings("batching.micro_batch_tokens=auto")
    run_ranks(2, chosen, "run", "terminate", 1, 7)
    two = run_ranks(2, chosen, "run")
    assert [int(rank["update"]) for rank in two] == [20, 20]
    assert len({int(rank["micro_batch_tokens"]) for rank in two}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("what", "rank", "code"), [("stop", 1, 1), ("sleep", 0, 0)])
def test_a_machine_that_vanishes_is_lost_and_one_that_saves_for_long_is_not(
    settings, tmp_path, reversed_words, what, rank, code
):
    on_machines = {"LOCAL_WORLD_SIZE": "1", "SHORT_TIMEOUT": "1"}
    arguments = reversed_words, settings(), tmp_path / "run", tmp_path / "out", what, rank, 7
    ranks = start_ranks(2, *arguments, environment=on_machines)
    try:
        error = ranks[0].finish()
        assert ranks[0].process.returncode == code, error
        assert ("rank 0: lost contact with the other ranks" in error) == (code != 0)
    finally:
        if what == "stop":
            ranks[1].process.kill()
        ranks[1].finish()


@pytest.mark.slow
def test_an_exception_on_one_rank_ends_the_job_and_names_the_rank(settings, tmp_path, reversed_words):
    result = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT),
            str(reversed_words), str(settings()), str(tmp_path / "run"), str(tmp_path / "out"), "raise", "1", "5",
        ],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode != 0
    assert "a mistake of this test" in result.stderr
    assert "It happened after update 4." in result.stderr
    assert "This was rank 1 of 2." in result.stderr
    # torchrun's own account names the first to fail, not the one that lost touch with it.
    assert "rank      : 1 " in result.stderr.split("Root Cause")[1]
    assert not (tmp_path / "run" / "checkpoints" / "step-00000005").exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_command_saves_on_all_ranks(settings, tmp_path, reversed_words, number):
    endless = settings("training.max_updates=100000", "training.patience=null", "logging.every_updates=1")
    with subprocess.Popen(
        [
            sys.executable, "-m", "nmt", "train", "--nproc", "2", "--data", str(reversed_words),
            "--config", str(endless), "--out", str(tmp_path / "run"),
        ],
        stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("update "):
                process.send_signal(number)
                break
        rest = process.stderr.read()
    assert process.returncode == 128 + number, rest
    assert rest.count("Saved. Run the same command to resume.") == 1  # not once per rank
    assert "Traceback" not in rest
    assert "torch/distributed" not in rest
    assert (tmp_path / "run" / "last").exists()


@pytest.mark.slow
def test_ranks_whose_starter_is_killed_save_and_end(settings, tmp_path, reversed_words):
    endless = settings("training.max_updates=100000", "training.patience=null", "logging.every_updates=1")
    run = tmp_path / "run"
    with subprocess.Popen(
        [
            sys.executable, "-m", "nmt", "train", "--nproc", "2", "--data", str(reversed_words),
            "--config", str(endless), "--out", str(run),
        ],
        stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("update "):
                break
        assert holder(run / ".lock").split()[0] != str(process.pid)
        process.kill()
        rest = process.stderr.read()  # to the end of the last rank
    assert "Saved. Run the same command to resume." in rest
    assert not (run / ".lock").exists()
    assert (run / "last").exists()


def test_mistakes_are_told_once_before_any_rank_starts(tmp_path, reversed_words):
    command = ["train", "--nproc", "2", "--data", reversed_words, "--set", "model.drop=1"]
    result = run_here(command, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count(b"model.dropout") == 1


@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_rank_that_is_stopping_already_gets_no_second_signal_when_its_starter_is_gone(monkeypatch, is_stopping):
    received, asked = [], threading.Event()

    def answer() -> bool:
        asked.set()
        return is_stopping

    monkeypatch.setattr(exchange, "is_launched", lambda: True)
    monkeypatch.setattr(exchange, "_POLL_SECONDS", 0.01)
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with exchange.saving_when_orphaned(answer):
            parent = os.getppid()
            monkeypatch.setattr(exchange.os, "getppid", lambda: parent + 1)
            assert asked.wait(60)
            monkeypatch.undo()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == ([] if is_stopping else [signal.SIGTERM])


def test_a_rank_reads_its_places_from_the_launchers_variables(monkeypatch):
    variables = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert exchange.ranks_of_environment() == exchange.Ranks(5, 8, 1, 4)
    monkeypatch.delenv("LOCAL_RANK")
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert exchange.ranks_of_environment() == exchange.Ranks(5, 8, 5, 8)


def test_a_lost_rank_is_told_from_memory_that_ends(monkeypatch):
    def fail(message: str):
        def all_reduce(tensor):
            raise RuntimeError(message)

        return all_reduce

    ranks, tensor = Ranks(rank=1, size=2), torch.zeros(1)
    monkeypatch.setattr(exchange.dist, "all_reduce", fail("Connection closed by peer"))
    with pytest.raises(
        LostPeerError, match=r"^rank 1: lost contact with the other ranks: .* \(Connection closed by peer"
    ):
        ranks.all_reduce(tensor)
    for message in ("DefaultCPUAllocator: can't allocate memory", "NCCL error: Cuda failure 2 'out of memory'"):
        monkeypatch.setattr(exchange.dist, "all_reduce", fail(message))
        with pytest.raises(TrainingError, match="the memory ended while ranks exchanged tensors"):
            ranks.all_reduce(tensor)


@pytest.mark.parametrize(("local_size", "waits"), [(1, 0), (2, 1)])
def test_only_a_rank_beside_others_waits_to_be_ended(monkeypatch, local_size, waits):
    waited = []
    monkeypatch.setattr(exchange, "_wait_to_be_ended", waited.append)
    ranks = Ranks(2, 4, 0, local_size)
    with pytest.raises(LostPeerError), exchange._failures_named(ranks, lambda: False):
        raise LostPeerError("gone")
    assert len(waited) == waits


def test_a_failure_names_the_rank_among_all_ranks():
    ranks = Ranks(3, 4, 1, 2)
    with pytest.raises(ConfigError, match=r"^rank 3: too large$"), exchange._failures_named(ranks, lambda: False):
        raise ConfigError("too large")
    with pytest.raises(ValueError, match="mistake") as caught, exchange._failures_named(ranks, lambda: False):
        raise ValueError("mistake")
    assert caught.value.__notes__ == ["This was rank 3 of 4."]
