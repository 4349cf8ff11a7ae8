"""Machines that come and go under torchrun: the run goes on with those that are left, and makes the same updates."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.io.locking import exclusive
from nmt.training.start import folder as folder_module
from tests.commands import run_command
from tests.training.conftest import records, saved
from tests.training.rank_processes import free_port

SECONDS = 240
PROGRAM = """
from datetime import timedelta
from nmt.training.ranks import exchange
exchange.UPDATE_TIMEOUT = timedelta(seconds=30)
from nmt.__main__ import main
main()
"""
# Many micro-batches, so that an update takes long enough for machines to come and go. At a higher learning rate, the
# updates amplify the rounding of sums in another order by more than 1e4.
UPDATES = 150
"""So many that a machine joins before the run is over, however busy the processor is."""
EXACT = [
    "training.precision=fp64", "model.dropout=0", "logging.every_updates=1", f"training.max_updates={UPDATES}",
    "training.patience=null", "validation.every_updates=1000", "checkpoints.every_updates=7",
    "batching.update_tokens=600", "batching.micro_batch_tokens=20",
    "schedule.factor=0.1",
]  # fmt: skip


class Machine:
    """A machine: a torchrun and its rank."""

    def __init__(self, port: int, arguments: list[str], errors: Path) -> None:
        self.errors = errors
        program = errors.with_name("program.py")
        program.write_text(PROGRAM)
        torchrun = [
            "--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "5", "--rdzv-backend", "c10d",
            "--rdzv-id", "test", "--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1",
            "--rdzv-conf", "last_call_timeout=3",
        ]  # fmt: skip
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *torchrun, str(program), *arguments],
                stderr=stderr, env=environment,
            )  # fmt: skip

    def lose_power(self) -> None:
        for pid in _family(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def vanish(self) -> None:
        """As without its network: it says no more, and its connections stay open."""
        for pid in _family(self.process.pid):
            os.kill(pid, signal.SIGSTOP)


def _family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family(int(child)))]


def update_of(run: Path) -> int:
    """The last update that a run has recorded."""
    lines = (run / "metrics.jsonl").read_text().splitlines() if (run / "metrics.jsonl").exists() else []
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return max((record["update"] for record in found if record["kind"] == "update"), default=0)


def wait_until(is_true: Callable[[], bool], machines: list[Machine]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < deadline, [machine.errors.read_text() for machine in machines]
        time.sleep(0.02)


def parameters(run: Path, update: int) -> np.ndarray:
    """The weights of a checkpoint in float64."""
    learnt = {name: tensor for name, tensor in saved(run, update).items() if name.startswith("learnt.")}
    return np.concatenate([learnt[name].numpy().ravel() for name in sorted(learnt)])


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("lose", [Machine.lose_power, Machine.vanish], ids=["power", "network"])
def test_of_two_machines_one_is_lost_and_comes_back(settings, tmp_path, reversed_words, lose):
    exact = ["train", "--data", str(reversed_words), "--config", str(settings(*EXACT)), "--out"]
    straight, run, port = tmp_path / "straight", tmp_path / "run", free_port()
    assert run_command([*exact, straight]).returncode == 0

    machines: list[Machine] = []
    second: Machine | None = None

    def machine() -> Machine:
        machines.append(Machine(port, [*exact, str(run)], tmp_path / f"{len(machines)}.err"))
        return machines[-1]

    try:
        first = machine()
        wait_until(lambda: answers(port), machines)  # the first machine holds the rendezvous
        second = machine()
        wait_until(lambda: update_of(run) >= 30, machines)
        lose(second)
        wait_until(lambda: len(records(run, "start")) == 2 and update_of(run) >= 60, machines)
        third = machine()
        codes = [each.process.wait(SECONDS) for each in (first, third)]
        assert codes == [0, 0], [each.errors.read_text() for each in machines]
    finally:
        if second is not None and second.process.poll() is None:
            second.lose_power()
        for each in machines:
            each.process.terminate()
            each.process.wait(60)

    assert [record["ranks"] for record in records(run, "start")] == [2, 1, 2]
    weights, expected = (parameters(of, UPDATES) for of in (run, straight))
    assert np.linalg.norm(weights - expected) <= 1e-9 * np.linalg.norm(expected)
    made, there = records(run, "update"), records(straight, "update")
    assert [record["update"] for record in made] == list(range(1, UPDATES + 1))
    assert [record["target_tokens"] for record in made] == [record["target_tokens"] for record in there]
    assert [record["loss"] for record in made] == pytest.approx([record["loss"] for record in there], rel=1e-9)


@pytest.mark.parametrize("is_released", [False, True])
def test_under_torchrun_a_run_waits_for_ranks_that_still_save(
    run_training, tmp_path, monkeypatch, listener, is_released
):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=5")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setattr(folder_module, "_SECONDS_UNTIL_RELEASED", 0.5)
    with ExitStack() as held:
        held.enter_context(exclusive(run / ".lock", wait=False))
        if is_released:
            noticed = listener.noticed

            def release(message: str) -> None:
                noticed(message)
                if message.startswith("waiting until process"):
                    held.close()

            monkeypatch.setattr(listener, "noticed", release)
            assert run_training(run).progress.update == 20
            assert any(notice.startswith("waiting until process") for notice in listener.notices)
        else:
            with pytest.raises(CheckpointError, match="another process is training in this folder"):
                run_training(run)
