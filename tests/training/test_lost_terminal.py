"""A run whose terminal or reader is lost (a broken ssh) saves and ends as on SIGTERM; under nohup it goes on."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from nmt.api.training import Training
from nmt.checkpoint.bundle import load_bundle
from nmt.cli.train import train
from nmt.training.progress import Ending, Progress
from nmt.training.run import Outcome

SETTINGS = ["training.max_updates=100000", "training.patience=null", "logging.every_updates=1"]


@pytest.fixture
def start(settings, tmp_path, reversed_words):
    """Start a run without an end; it is killed when the test is over."""
    processes = []

    def begin(*arguments: str, **streams) -> subprocess.Popen:
        command = [
            sys.executable, "-m", "nmt", "train", "--data", str(reversed_words), "--config", str(settings(*SETTINGS)),
            "--out", str(tmp_path / "run"), *arguments,
        ]  # fmt: skip
        processes.append(subprocess.Popen(command, **streams))
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.wait()


def first_update(stream: int) -> None:
    """Read from a run's output until it is training."""
    said = b""
    while b"update " not in said or b"epoch 1" not in said:
        said += os.read(stream, 4_096) or pytest.fail(said.decode())


@pytest.mark.parametrize(
    "ranks", [pytest.param([], id="alone"), pytest.param(["--nproc", "2"], id="two ranks", marks=pytest.mark.slow)]
)
def test_a_lost_terminal_saves_and_ends(start, tmp_path, ranks):
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = start(
        *ranks, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=take_terminal
    )
    os.close(theirs)
    first_update(ours)
    os.close(ours)
    assert process.wait(300) == 128 + signal.SIGHUP
    load_bundle((tmp_path / "run" / "last").resolve())
    assert not (tmp_path / "run" / ".lock").exists()


@pytest.mark.slow
def test_a_lost_reader_saves_and_ends(start, tmp_path):
    process = start(stderr=subprocess.PIPE)
    assert process.stderr is not None
    first_update(process.stderr.fileno())
    process.stderr.close()
    assert process.wait(300) == 128 + signal.SIGHUP
    load_bundle((tmp_path / "run" / "last").resolve())


def test_a_reader_that_is_lost_before_the_last_notice_is_a_lost_terminal(monkeypatch, settled):
    outcome = Outcome(Path("run"), Ending.UPDATES, False, Progress())
    monkeypatch.setattr("nmt.api.training.train", lambda **_: Training(Path("run"), settled(), outcome=outcome))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", 1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit) as ended:
            train(show_settings=False, fresh=False)
    assert ended.value.code == 128 + signal.SIGHUP
