"""Calls of the methods of an object in another process, several at the same time.

Each of these calls has a lane: a connection that a thread of the other process answers, or a copy of that process.
"""

from __future__ import annotations

import contextlib
import importlib
import operator
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NoReturn

from nmt.errors import NmtError
from nmt.machine.exit_codes import how_it_ended
from nmt.machine.modules import start_module

_DIVIDE = "divide"
Tell = Callable[[object], None]
"""Sends a message to the process that calls, during a call."""


class ProcessLostError(NmtError):
    """The other process ended by itself."""


class CalledProcess:
    """Another process with an object whose methods are called. It ends with this process, however that ends."""

    def __init__(self, name: str, kind: Callable[[Tell], object], *, told: Tell) -> None:
        """Start the process, with one lane.

        Args:
            name: of the process, for errors.
            kind: the class of the object, at the top level of its module.
            told: called with the messages of the object.
        """
        self._name = name
        self._told = told
        self._ended: Future[Exception] = Future()
        """Why there are no more answers."""
        self._free: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        ours, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            arguments = [kind.__module__, kind.__qualname__, number]
            self._process = start_module(__name__, arguments, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[number])
        self._free.put(ours)
        self._watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self._watcher.start()

    def divide(self, lanes: int, *, fork: bool) -> None:
        """Let so many calls be answered at the same time. Call it once, before other threads use this object.

        Args:
            fork: answer each lane in a process of its own, which begins as a copy of the object's. Otherwise in a
                thread.

        Raises:
            NmtError: the system allows no more processes.
        """
        pairs = [Pipe() for _ in range(lanes - 1)]

        def send_lanes(lane: Connection) -> None:
            for _, theirs in pairs:
                send_handle(lane, theirs.fileno(), self._process.pid)
                theirs.close()

        self._ask(pickle.dumps((_DIVIDE, (len(pairs), fork), {})), then=send_lanes)
        for ours, _ in pairs:
            self._free.put(ours)

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method, in the lane that has been free for longest. Returns what it returns, or raises what it raises.

        Args:
            method: its name; of an attribute of the object: ``attribute.method``.

        Raises:
            ProcessLostError: the process has ended by itself.
        """
        return self._ask(pickle.dumps((method, arguments, named)))

    def watch(self, lost: Callable[[ProcessLostError], object]) -> None:
        """Let a function be called, in another thread, when the process has ended by itself."""

        def tell(ended: Future[Exception]) -> None:
            if isinstance(reason := ended.result(), ProcessLostError):
                lost(reason)

        self._ended.add_done_callback(tell)

    def end(self, reason: Exception) -> None:
        """End the process at once. Running and later calls raise the reason."""
        with contextlib.suppress(InvalidStateError):  # it has ended
            self._ended.set_result(reason)
        if self._watcher.is_alive():
            self._kill()
            self._watcher.join()

    def _ask(self, request: bytes, *, then: Callable[[Connection], None] = lambda lane: None) -> Any:
        """Send a request, and wait for the answer.

        Args:
            then: sends what belongs to the request.
        """
        lane = self._free.get()
        try:
            with self._explained():
                lane.send_bytes(request)
                then(lane)
                kind, value = lane.recv()
            while kind == "message":
                self._told(value)
                with self._explained():
                    kind, value = lane.recv()
        except BaseException:  # the next call in this lane would get the answer of this one
            self.end(RuntimeError("a call was broken off"))
            raise
        finally:
            self._free.put(lane)
        if kind == "error":
            raise value
        return value

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the end of a lane into its reason."""
        try:
            yield
        except (EOFError, OSError):
            raise self._ended.result() from None

    def _kill(self) -> None:
        """Kill the process and its copies."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        code = self._process.wait()
        self._kill()
        with contextlib.suppress(InvalidStateError):  # it was ended
            self._ended.set_result(ProcessLostError(f"{self._name} {how_it_ended(code)}."))


def _run(module: str, kind: str, number: str) -> None:
    """The other process: answer calls until the process that makes them has ended."""
    # Service managers send these to all processes of a service. The process that calls decides what to do.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    lane = Connection(int(number))
    threading.Thread(target=_end_with_caller, args=(lane.fileno(),), daemon=True).start()
    target = getattr(importlib.import_module(module), kind)(lambda message: lane.send(("message", message)))
    _answer(lane, target)


def _end_with_caller(number: int) -> None:
    """Wait until the other end of a connection is closed, and end."""
    waiting = select.poll()
    waiting.register(number, 0)
    waiting.poll()
    _end()


def _end() -> NoReturn:
    """End at once, with all copies and what they have started: results are no longer needed."""
    os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _answer(lane: Connection, target: object) -> NoReturn:
    """Answer the calls of a lane until its end, which is that of the process."""
    try:
        while True:
            method, arguments, named = lane.recv()
            if method == _DIVIDE:
                count, fork = arguments
                lanes = [Connection(recv_handle(lane)) for _ in range(count)]
                lane.send_bytes(_outcome(_divide, lane, lanes, target, fork))
            else:
                lane.send_bytes(_outcome(lambda: operator.attrgetter(method)(target)(*arguments, **named)))  # noqa: B023
    except (EOFError, ConnectionError):
        _end()
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _divide(first: Connection, lanes: Sequence[Connection], target: object, fork: bool) -> None:
    """Let further lanes be answered.

    Raises:
        NmtError: the system allows no more processes.
    """
    if not fork:
        for lane in lanes:
            threading.Thread(target=_answer, args=(lane, target), daemon=True).start()
        return
    copies: list[int] = []
    for lane in lanes:
        if (copy := _forked()) == 0:
            for other in (first, *lanes):
                if other is not lane:
                    other.close()
            _answer(lane, target)
        copies.append(copy)
    for lane in lanes:
        lane.close()
    for copy in copies:
        threading.Thread(target=_end_as, args=(copy,), daemon=True).start()


def _end_as(copy: int) -> None:
    """Wait until a copy has ended, and end in the same way."""
    _, status = os.waitpid(copy, 0)
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _forked() -> int:
    """Fork. Returns 0 in the copy, and its id in the original."""
    with warnings.catch_warnings():  # Python 3.12 warns if there are threads, which a copy lacks
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return os.fork()
        except OSError as error:
            raise NmtError(
                f"a worker's process cannot be started ({error.strerror}). Give fewer --batches, or let the system "
                "allow more processes or memory."
            ) from None


def _outcome(work: Callable[..., object], *arguments: object) -> bytes:
    """The answer to a call."""
    try:
        return pickle.dumps(("result", work(*arguments)))
    except Exception as error:
        where = "".join(traceback.format_exception(error))
        error.add_note(where)  # a pickle holds no traceback
        with contextlib.suppress(Exception):  # an error that is not made from its arguments
            pickle.loads(answer := pickle.dumps(("error", error)))
            return answer
        same = NmtError(str(error)) if isinstance(error, NmtError) else RuntimeError(where)
        return pickle.dumps(("error", same))


if __name__ == "__main__":
    _run(*sys.argv[1:])
