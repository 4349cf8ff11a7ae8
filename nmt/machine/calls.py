"""Calls of methods in another process: of one object, in as many lanes as there are calls at the same time.

A lane is a connection that is answered by a thread of the other process, or by a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from nmt.errors import NmtError
from nmt.machine.exit_codes import how_it_ended
from nmt.machine.modules import start_module

_DIVIDE = "divide"


class ProcessLostError(NmtError):
    """The other process ended by itself."""


class CalledProcess:
    """Another process with an object whose methods are called. It ends with this process, however that ends."""

    def __init__(self, kind: Callable[[Callable[[str], None]], object], *, report: Callable[[str], object]) -> None:
        """Start the process, with one lane.

        Args:
            kind: the class of the object, at the top level of its module. It is made with a function that sends a
                message to this process during a call.
            report: called with these messages.
        """
        self._report = report
        self._when_lost: Callable[[ProcessLostError], object] = lambda error: None
        self._end: Exception | None = None
        """Why there are no more answers."""
        self._lanes: list[socket.socket] = []
        self._free: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._ending = threading.Lock()
        theirs = self._new_lane()
        with theirs:
            number = theirs.fileno()
            arguments = [kind.__module__, kind.__qualname__, number]
            self._process = start_module(__name__, arguments, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[number])
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()

    def divide(self, lanes: int, *, fork: bool) -> None:
        """Let so many calls be answered at the same time. Call it once, before other threads call.

        Args:
            fork: answer each lane in a process of its own, which begins as a copy of the object's. Otherwise in a
                thread.
        """
        theirs = [self._new_lane() for _ in range(lanes - 1)]
        first = self._lanes[0]
        lane = self._free.get()
        lane.send((_DIVIDE, (len(theirs), fork)))
        for each in theirs:
            socket.send_fds(first, [b"\0"], [each.fileno()])
            each.close()
        self._free.put(lane)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method, in the lane that has waited longest. Returns what it returns, or raises what it raises.

        Raises:
            ProcessLostError: the process has ended by itself.
        """
        lane = self._free.get()
        try:
            with self._explained():
                lane.send((method, arguments))
                kind, value = lane.recv()
            while kind == "report":
                self._report(value)
                with self._explained():
                    kind, value = lane.recv()
        finally:
            self._free.put(lane)
        if kind == "error":
            raise value
        return value

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the end of a lane into the reason."""
        try:
            yield
        except (EOFError, OSError):
            self._watcher.join()
            assert self._end is not None
            raise self._end from None

    def watch(self, lost: Callable[[ProcessLostError], object]) -> None:
        """Let a function be called, in another thread, when the process has ended by itself."""
        with self._ending:
            self._when_lost = lost
            error = self._end
        if isinstance(error, ProcessLostError):
            lost(error)

    def end(self, reason: Exception) -> None:
        """End the process at once. Calls without an answer raise the reason, and those that come."""
        with self._ending:
            self._end = self._end or reason
        self._kill()
        self._watcher.join()

    def _kill(self) -> None:
        """Kill the process and its copies."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _new_lane(self) -> socket.socket:
        """Make a lane. Returns the other process's end."""
        ours, theirs = socket.socketpair()
        self._lanes.append(ours)
        self._free.put(Connection(os.dup(ours.fileno())))
        return theirs

    def _watch(self) -> None:
        code = self._process.wait()
        lost = ProcessLostError(f"process {self._process.pid} {how_it_ended(code)}.")
        with self._ending:
            self._end, when_lost = self._end or lost, self._when_lost
        self._kill()
        for lane in self._lanes:
            with contextlib.suppress(OSError):
                lane.shutdown(socket.SHUT_RDWR)
        if self._end is lost:
            when_lost(lost)


def _run(module: str, kind: str, number: str) -> None:
    """The other process: answer calls until the process that makes them has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # service managers send it to all processes: the caller decides
    lane = Connection(int(number))
    target = getattr(importlib.import_module(module), kind)(lambda message: lane.send(("report", message)))
    _answer(lane, target)


def _answer(lane: Connection, target: object) -> NoReturn:
    """Answer the calls of a lane until its end, which is that of the process: what others compute is for nobody."""
    try:
        while True:
            method, arguments = lane.recv()
            if method == _DIVIDE:
                _divide(lane, target, *arguments)
            else:
                lane.send_bytes(_outcome(target, method, arguments))
    except (EOFError, ConnectionError):
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _divide(first: Connection, target: object, lanes: int, fork: bool) -> None:
    """Let further lanes be answered."""
    copies = []
    with socket.socket(fileno=os.dup(first.fileno())) as receiving:
        for _ in range(lanes):
            _, [number], _, _ = socket.recv_fds(receiving, 1, 1)
            lane = Connection(number)
            if not fork:
                threading.Thread(target=_answer, args=(lane, target), daemon=True).start()
                continue
            with warnings.catch_warnings():  # Python 3.12 warns if there are threads, which a copy lacks
                warnings.simplefilter("ignore", DeprecationWarning)
                copy = os.fork()
            if copy == 0:
                first.close()
                receiving.close()
                _answer(lane, target)
            lane.close()
            copies.append(copy)

    def end_as_copy(*_: object) -> None:
        for copy in copies:
            ended, status = os.waitpid(copy, os.WNOHANG)
            if ended and os.WIFSIGNALED(status):
                os.kill(os.getpid(), os.WTERMSIG(status))
            elif ended:
                os._exit(os.waitstatus_to_exitcode(status))

    if fork:
        signal.signal(signal.SIGCHLD, end_as_copy)
        end_as_copy()


def _outcome(target: object, method: str, arguments: tuple[Any, ...]) -> bytes:
    """The answer to a call."""
    try:
        return pickle.dumps(("result", getattr(target, method)(*arguments)))
    except Exception as error:
        if not isinstance(error, NmtError):
            error.add_note("".join(traceback.format_exception(error)))  # else the place is lost
        with contextlib.suppress(Exception):  # an error that is not made from its arguments
            pickle.loads(answer := pickle.dumps(("error", error)))
            return answer
        return pickle.dumps(("error", RuntimeError("".join(traceback.format_exception(error)))))


if __name__ == "__main__":
    _run(*sys.argv[1:])
