"""A process that says nothing does not keep a test waiting."""

import signal
import subprocess
import sys

from tests.processes import running


def test_a_silent_process_is_killed_and_its_pipe_ends():
    command = [sys.executable, "-c", "import time; time.sleep(1_000)"]
    with running(command, seconds=0.2, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b""
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_ends_is_left_alone():
    with running([sys.executable, "-c", "print('here')"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.read() == "here\n"
    assert process.returncode == 0
