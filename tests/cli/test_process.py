"""Ctrl-C and SIGTERM: the first ends the command; further ones do not disturb its cleaning up for two seconds."""

import signal
import subprocess
import sys

import pytest

from tests.processes import SECONDS, running

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


WRITING = """
import sys, time, types
from pathlib import Path
from typing import Annotated
import typer
from nmt.cli import app
from nmt.io.files import replacing

def write(out: Annotated[Path, typer.Argument()]):
    with replacing(out):
        print(flush=True)
        time.sleep(60)

sys.modules["nmt.cli.write"] = types.SimpleNamespace(write=write)
app._COMMANDS["write"] = ("write", "")
app.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_ended_leaves_no_unfinished_file(tmp_path, number, code):
    with running([sys.executable, "-c", WRITING, "write", tmp_path / "out"], stdout=subprocess.PIPE) as writing:
        writing.stdout.readline()
        assert [*tmp_path.iterdir()]
        writing.send_signal(number)
    assert writing.returncode == code
    assert [*tmp_path.iterdir()] == []
