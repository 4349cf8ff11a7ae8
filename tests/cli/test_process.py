"""Ctrl-C: the first ends the command, further ones do not disturb its cleaning up, unless that takes too long."""

import subprocess
import sys

import pytest

from tests.processes import SECONDS

PROGRAM = """
import os, signal, sys, time
from nmt.cli import process

process.interrupt_once()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    process.time.monotonic = lambda clock=time.monotonic: clock() + float(sys.argv[1])
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)
    print("cleaned up", flush=True)
    process.end_interrupted()
"""


@pytest.mark.parametrize(("seconds", "output"), [(0.1, "cleaned up\n"), (2.3, "")])
def test_a_second_interrupt_ends_the_cleaning_up_only_after_two_seconds(seconds, output):
    command = [sys.executable, "-c", PROGRAM, str(seconds)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, output, "")
