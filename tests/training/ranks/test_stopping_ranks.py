"""Ranks that a signal stops finish their update, however long it takes, unless the user asks a second time."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from nmt.errors import TrainingError
from nmt.training.ranks import launch as launch_module
from nmt.training.ranks.launch import launch

RANK = """
import signal, sys, time
from pathlib import Path

def finish(number, frame):
    Path(sys.argv[1], "signalled").touch()
    time.sleep(float(sys.argv[2]))  # the rest of an update, and a checkpoint
    sys.exit(128 + number)

signal.signal(signal.SIGTERM, finish)
Path(sys.argv[1], "ready").touch()
time.sleep(60)
"""


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Launch a rank whose update goes on for some seconds, and send the launcher SIGTERM at each of two moments."""

    def launch_and_stop(seconds: float, *moments: str) -> int:
        def start(module, arguments, *, environment):
            return subprocess.Popen([sys.executable, "-c", RANK, tmp_path, str(seconds)], env=environment)

        def send() -> None:
            for moment in moments:
                while not (tmp_path / moment).exists():
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(launch_module, "start_module", start)
        monkeypatch.setattr(launch_module, "_SECONDS_TO_END", 0.2)
        monkeypatch.setattr(launch_module, "SECONDS_OF_ONE_SIGNAL", 0.0)
        threading.Thread(target=send).start()
        return launch([], 1)

    return launch_and_stop


def test_a_rank_that_finishes_its_update_is_waited_for(stopped):
    assert stopped(1.0, "ready") == 128 + signal.SIGTERM


def test_a_second_signal_ends_a_rank_that_does_not_end(stopped):
    with pytest.raises(TrainingError, match=r"rank 0 did not end within 0\.2 seconds of .* a second signal"):
        stopped(60.0, "ready", "signalled")
