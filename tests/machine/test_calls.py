"""Calls of methods in another process, whatever becomes of either."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nmt.errors import DataError, NmtError
from nmt.io.writing import writing
from nmt.machine.calls import CalledProcess, ProcessLostError
from tests.processes import SECONDS

ROOT = Path(__file__).parents[2]


class Callee:
    """What is called."""

    def __init__(self, report):
        self.report = report
        self.kept = []
        self.both = threading.Barrier(2)

    def keep(self, value):
        self.kept.append(value)
        return self.kept

    def process(self, folder, count):
        """The process's id, once so many lanes have called."""
        (Path(folder) / f"{os.getpid()}-{threading.get_ident()}").touch()
        while len(list(Path(folder).iterdir())) < count:
            time.sleep(0.001)
        return os.getpid()

    def say(self, *words):
        for word in words:
            self.report(word)

    def fail(self, error):
        raise error

    def fail_by_an_error_of_two_arguments(self):
        class OddError(Exception):
            def __init__(self, one, two):
                super().__init__(one)

        raise OddError(1, 2)

    def fail_to_write(self):
        with writing(Path("x")):
            raise OSError(28, "a reason", "x")

    def allow_no_process(self):
        def fork():
            raise BlockingIOError(11, "no")

        os.fork = fork

    def fail_to_answer(self):
        return threading.Lock()

    def sleep(self):
        time.sleep(SECONDS)


@pytest.fixture
def said():
    return []


@pytest.fixture
def called(said):
    process = CalledProcess("the process", Callee, told=said.append)
    yield process
    process.end(DataError("the test has ended"))


def processes_of(called, tmp_path, count):
    """The id of the process of each lane."""
    with ThreadPoolExecutor(count) as executor:
        return list(executor.map(lambda _: called.call("process", str(tmp_path), count), range(count)))


def wait_until_gone(pid):
    end = time.monotonic() + SECONDS
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while "(zombie)" not in Path(f"/proc/{pid}/status").read_text("ascii"):
            assert time.monotonic() < end
            time.sleep(0.01)


def test_an_object_in_another_process_is_called_and_its_messages_arrive_before_the_answer(called, said):
    assert [called.call("keep", value) for value in "ab"] == [["a"], ["a", "b"]]
    called.call("say", "one", "two")
    assert said == ["one", "two"]


@pytest.mark.parametrize(
    ("method", "arguments", "error", "says"),
    [
        ("fail", [DataError("too long")], DataError, "^too long"),
        ("fail", [ZeroDivisionError("0")], ZeroDivisionError, "0"),
        ("fail_to_write", [], NmtError, r"x: cannot be written \(a reason\)"),  # it has arguments of its own
        ("fail_by_an_error_of_two_arguments", [], RuntimeError, None),
        ("fail_to_answer", [], (RuntimeError, TypeError), None),
        ("no_such_method", [], (RuntimeError, AttributeError), None),
        ("keep", [threading.Lock()], (TypeError, AttributeError), None),  # it cannot be sent
    ],
)
def test_an_error_arrives_and_does_not_end_the_process(called, method, arguments, error, says):
    with pytest.raises(error, match=says) as found:
        called.call(method, *arguments)
    if method == "fail":
        assert "in fail" in found.value.__notes__[0]
    assert called.call("keep", 1) == [1]


def test_an_error_of_the_one_who_is_told_ends_the_process(called, said):
    def refuse(message):
        raise OSError(message)

    process = CalledProcess("the process", Callee, told=refuse)
    with pytest.raises(OSError, match="word"):
        process.call("say", "word")
    with pytest.raises(RuntimeError, match="broken off"):
        process.call("keep", 1)


def test_a_system_without_room_for_a_process_is_an_error(called):
    called.call("allow_no_process")
    with pytest.raises(NmtError, match=r"a worker's process cannot be started .* Give fewer --batches"):
        called.divide(2, fork=True)


@pytest.mark.parametrize("fork", [False, True])
def test_lanes_answer_at_the_same_time(called, tmp_path, fork):
    called.call("keep", "before")
    called.divide(3, fork=fork)
    found = processes_of(called, tmp_path, 3)
    assert len(set(found)) == (3 if fork else 1)
    assert all(called.call("keep", "after")[0] == "before" for _ in range(3))
    assert len({called.call("process", str(tmp_path), 0) for _ in range(3)}) == len(set(found))  # in turn


@pytest.mark.parametrize("killed", [0, 1])
def test_a_process_that_is_killed_fails_its_calls_and_those_that_come(called, tmp_path, killed):
    called.divide(2, fork=True)
    lost = []
    called.watch(lost.append)
    pids = processes_of(called, tmp_path, 2)
    with ThreadPoolExecutor(2) as executor:
        calls = [executor.submit(called.call, "sleep") for _ in range(2)]
        time.sleep(0.1)
        os.kill(sorted(pids)[killed], signal.SIGKILL)
        for call in calls:
            with pytest.raises(ProcessLostError, match=r"^the process was killed by SIGKILL \(the system also"):
                call.result(SECONDS)
    with pytest.raises(ProcessLostError):
        called.call("keep", 1)
    for pid in pids:
        wait_until_gone(pid)
    end = time.monotonic() + SECONDS
    while not lost:  # told after the calls have failed
        assert time.monotonic() < end
        time.sleep(0.01)
    assert list(map(type, lost)) == [ProcessLostError]
    called.watch(lost.append)  # it is too late, and still told
    assert len(lost) == 2


def test_a_process_that_is_ended_fails_its_calls_by_the_reason(called, tmp_path):
    called.divide(2, fork=True)
    lost = []
    called.watch(lost.append)
    pids = processes_of(called, tmp_path, 2)
    with ThreadPoolExecutor(2) as executor:
        calls = [executor.submit(called.call, "sleep") for _ in range(2)]
        time.sleep(0.1)
        called.end(DataError("enough"))
        for call in calls:
            with pytest.raises(DataError, match="enough"):
                call.result(SECONDS)
    with pytest.raises(DataError, match="enough"):
        called.call("keep", 1)
    for pid in pids:
        wait_until_gone(pid)
    assert lost == []


def test_a_request_to_end_is_the_callers_business(called, tmp_path):
    called.divide(2, fork=True)
    for pid in processes_of(called, tmp_path, 2):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
    assert [called.call("keep", 1) for _ in range(2)] == [[1], [1]]


def test_it_ends_when_its_caller_is_killed(tmp_path):
    program = (
        "from tests.machine.test_calls import *\n"
        "called = CalledProcess('the process', Callee, told=print)\n"
        "called.divide(2, fork=True)\n"
        f"print(*processes_of(called, {str(tmp_path)!r}, 2), flush=True)\n"
        "called.call('sleep')"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as caller:
        pids = list(map(int, caller.stdout.readline().split()))
        caller.kill()
    assert len(set(pids)) == 2
    for pid in pids:
        wait_until_gone(pid)


def test_a_process_that_does_not_begin_is_lost(said, capfd):
    class Nowhere:
        """Not at the top level of the module."""

    process = CalledProcess("the process", Nowhere, told=said.append)
    with pytest.raises(ProcessLostError, match="ended with exit code 1"):
        process.call("keep", 1)
    assert "AttributeError" in capfd.readouterr().err
