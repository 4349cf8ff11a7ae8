"""Work shared out to processes: in order, bounded, and gone when its owner is."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nmt.corpora.processes import map_in_order
from nmt.errors import DataError


def test_results_come_in_order():
    assert list(map_in_order(abs, range(-50, 0), workers=2)) == list(range(50, 0, -1))
    assert list(map_in_order(abs, [], workers=2)) == []


def test_an_error_comes_through():
    with pytest.raises(TypeError):
        list(map_in_order(abs, [1, 2, 3, 4, 5, "six"], workers=2))


def kill_self_at_six(number):
    if number == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def test_a_killed_worker_is_one_error_that_names_it_and_what_to_do():
    with pytest.raises(DataError) as raised:
        list(map_in_order(kill_self_at_six, range(30), workers=2))
    found = re.fullmatch(
        r"A worker process was killed by SIGKILL \(the system also does this when memory runs out\)\. "
        r"Run the same command again, with fewer --jobs if memory ran out\.",
        str(raised.value),
    )
    assert found is not None, raised.value
    assert raised.value.__cause__ is None and raised.value.__suppress_context__


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="looks for processes in /proc")
def test_workers_do_not_outlive_a_killed_parent():
    program = """
import itertools
from nmt.corpora.processes import map_in_order
seen = set()
for process in map_in_order(eval, itertools.repeat("__import__('os').getpid()"), 2):
    seen.add(process)
    if len(seen) == 2:
        print(*seen, flush=True)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    children = [int(word) for word in parent.stdout.readline().split()]
    assert len(children) == 2
    try:
        parent.kill()
        parent.wait()
        until = time.monotonic() + 10
        while any(map(alive, children)):
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        parent.stdout.close()
        for child in filter(alive, children):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_script_needs_no_guard(tmp_path, is_file):
    """Whoever calls nmt.prepare_data from Python need not know that processes are started."""
    program = "from nmt.corpora.processes import map_in_order\nprint(sum(map_in_order(abs, range(-9, 0), 2)))\n"
    (tmp_path / "script.py").write_text(program)
    command = [sys.executable, *([str(tmp_path / "script.py")] if is_file else ["-"])]
    ended = subprocess.run(command, input=program, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("45\n", "")
