"""Commands in processes of their own that need not import torch: they are forked from one that has.

To start Python and import torch takes seconds, most of what a short command takes. Where signals or terminals matter, a
command is better started for real.
"""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import IO, Any, BinaryIO

from typer.testing import CliRunner

from nmt.cli.app import app
from tests.processes import kill_after, running

Stream = IO[Any] | int | None

# What Python, or a library that it loads, reads but once.
_READ_AT_START = (
    "PYTHON", "LD_", "LANG", "LC_", "MALLOC", "OMP_", "GOMP_", "KMP_", "MKL_", "TORCH", "ATEN_", "ONEDNN", "DNNL",
    "SACREBLEU",
)  # fmt: skip
_PRELOADED = [
    "nmt.cli.app",
    "nmt.api.data",
    "nmt.api.files",
    "nmt.api.model",
    "nmt.api.comparing",
    "nmt.api.scoring",
    "nmt.api.training",
    "nmt.checkpoint.averaging",
    "nmt.corpora.prepare",
    "nmt.data.build",
    "nmt.reports.run_report",
    "nmt.training.run",
    "nmt.training.start.summary",
    "tests.language_identifier",
    "nmt.translation.target_scorer",
    "torch._dynamo",  # which the first optimiser imports, for seconds
]


def run_command(
    arguments: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    text: bytes = b"",
    environment: Mapping[str, str] | None = None,
    redirected: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run ``nmt ARGUMENTS`` with a pipe for each stream and one thread for OpenMP.

    Args:
        text: what it reads from standard input.
        environment: variables that differ from those of this process.
        redirected: a file for its standard output, instead of a pipe.
    """
    with contextlib.ExitStack() as stack:
        out = subprocess.PIPE if redirected is None else stack.enter_context(redirected.open("wb"))
        process = stack.enter_context(running_command(arguments, cwd=cwd, environment=environment, stdout=out))
        stdout, stderr = process.communicate(text)
    return subprocess.CompletedProcess(arguments, process.wait(), stdout or b"", stderr)


def run_here(
    arguments: Sequence[str | Path], *, cwd: Path | None = None, text: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run ``nmt ARGUMENTS`` in this process: for commands that read no variable when Python starts.

    A traceback is an error of the test. ``--quiet`` would outlast the command.
    """
    with contextlib.chdir(cwd or Path.cwd()):
        found = CliRunner().invoke(app, [*map(str, arguments)], input=text, env=environment)
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return subprocess.CompletedProcess(arguments, found.exit_code, found.stdout_bytes, found.stderr_bytes)


@contextlib.contextmanager
def running_command(
    arguments: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: Stream = subprocess.PIPE,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
) -> Iterator[Process]:
    """``nmt ARGUMENTS`` while it runs, with one thread for OpenMP and streams as those of Popen.

    It is killed when it takes too long: whoever reads its pipes comes to their end.
    """
    words, variables = ["-m", "nmt", *map(str, arguments)], _one_thread() | dict(environment or {})
    streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
    if not is_forkable(variables):
        with running([sys.executable, *words], cwd=cwd, env=variables, **streams) as started:
            yield started
        return
    process = ForkedPython(words, str(cwd or Path.cwd()), variables, **streams)
    timer = kill_after(process)
    try:
        yield process
        process.close()
        process.wait()
    finally:
        timer.cancel()
        process.close()
        process.kill()


def is_forkable(environment: Mapping[str, str]) -> bool:
    """Whether Python would start with these variables as the process did that commands are forked from."""
    return _at_start(environment) == _at_start(_one_thread())


def forking() -> ForkServerContext:
    """Starts processes from one that has imported torch, and has one thread for OpenMP."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with _environment(_one_thread()):
        forkserver.ensure_running()
    return context


class ForkedPython:
    """``python WORDS``, forked; has the attributes and methods of Popen that a test needs."""

    def __init__(
        self,
        words: Sequence[str],
        cwd: str,
        environment: dict[str, str],
        *,
        stdin: Stream = None,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> None:
        """Start it, with streams as those of Popen.

        Args:
            words: ``-m MODULE …``, ``-c PROGRAM …`` or ``FILE …``.
        """
        self.stdin, read_by_it = _ends(0, stdin)
        self.stdout, written_by_it = _ends(1, stdout)
        self.stderr, told_by_it = _ends(2, stderr)
        context = forking()
        connections = [
            Connection(stream, readable=index == 0, writable=index > 0)
            for index, stream in enumerate((read_by_it, written_by_it, told_by_it))
        ]
        self._process = context.Process(target=_become, args=(list(words), cwd, environment, connections))
        self._process.start()
        for connection in connections:
            connection.close()

    @property
    def pid(self) -> int | None:
        """Its id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As :attr:`returncode`."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns the exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("python", timeout or 0.0)
        return self._process.exitcode

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self._process.pid or 0, number)

    def kill(self) -> None:
        """Send SIGKILL, and wait."""
        self._process.kill()
        self._process.join()

    def communicate(self, text: bytes = b"", timeout: float | None = None) -> tuple[bytes | None, bytes | None]:
        """Write its input, close it, and wait; returns what it writes to those of its outputs that are pipes."""
        found: dict[BinaryIO, bytes] = {}
        threads = [threading.Thread(target=_write, args=(self.stdin, text))] if self.stdin else []
        threads += [threading.Thread(target=_read, args=(pipe, found)) for pipe in (self.stdout, self.stderr) if pipe]
        for thread in threads:
            thread.start()
        try:
            self.wait(timeout)
        finally:
            self.kill()
            for thread in threads:
                thread.join()
        return self.stdout and found[self.stdout], self.stderr and found[self.stderr]

    def close(self) -> None:
        """Close our ends of its pipes."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


Process = ForkedPython | subprocess.Popen[bytes]


def start_python(words: Sequence[object], *, environment: Mapping[str, str]) -> tuple[Process, BinaryIO]:
    """Start ``python WORDS`` without input, its output as ours; returns the process and a pipe with its errors.

    Args:
        environment: variables that differ from those of this process.
    """
    texts, variables = [str(word) for word in words], os.environ | dict(environment)
    streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process: Process
    if is_forkable(variables):
        process = ForkedPython(texts, str(Path.cwd()), variables, **streams)
    else:
        process = subprocess.Popen([sys.executable, *texts], env=variables, **streams)
    assert process.stderr is not None
    return process, process.stderr


@contextlib.contextmanager
def nmt_for_scripts(folder: Path) -> Iterator[Path]:
    """A program ``nmt`` in a folder, for shells: it hands its words, variables and streams to a forked command.

    It starts a command of its own where the variables ask for another start of Python.
    """
    program, client, sockets = folder / "nmt", folder / "client.py", tempfile.TemporaryDirectory(prefix="nmt")
    address = f"{sockets.name}/socket"  # whose length is limited
    client.write_text(_CLIENT.format(python=sys.executable, address=address), "utf-8")
    # A line "#!python" would break at a blank in the path.
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{client}" "$@"\n', "utf-8")
    program.chmod(0o755)
    with sockets, socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield program
        server.shutdown(socket.SHUT_RDWR)


_CLIENT = """
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "little")], [0, 1, 2])
    connection.sendall(request)
    answer = connection.recv(8)
if answer:
    sys.exit(int(answer))
os.execv({python!r}, [{python!r}, "-m", "nmt", *sys.argv[1:]])
"""


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:  # it is closed
            return
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        length, streams, _, _ = socket.recv_fds(connection, 8, 3)
        with connection.makefile("rb") as stream:
            words, cwd, environment = json.loads(stream.read(int.from_bytes(length, "little")))
        if not is_forkable(environment):
            for descriptor in streams:
                os.close(descriptor)
            return
        stdin, stdout, stderr = streams
        process = ForkedPython(["-m", "nmt", *words], cwd, environment, stdin=stdin, stdout=stdout, stderr=stderr)
        for descriptor in streams:
            os.close(descriptor)
        status = process.wait()
        connection.sendall(str(status if status >= 0 else 128 - status).encode())


def _one_thread() -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1"}


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        # Another thread may copy the environment now, so it is never empty.
        for name in variables.keys() - before.keys():
            os.environ.pop(name, None)
        os.environ.update(before)


def _ends(number: int, stream: Stream) -> tuple[BinaryIO | None, int]:
    """Our end of a stream of a process, if it is a pipe, and its end."""
    if stream == subprocess.PIPE:
        reading, writing = os.pipe()
        return (os.fdopen(writing, "wb"), reading) if number == 0 else (os.fdopen(reading, "rb"), writing)
    if stream == subprocess.DEVNULL:
        return None, os.open(os.devnull, os.O_RDWR)
    return None, os.dup(number if stream is None else stream if isinstance(stream, int) else stream.fileno())


def _write(pipe: BinaryIO, text: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(text)


def _read(pipe: BinaryIO, found: dict[BinaryIO, bytes]) -> None:
    with pipe:
        found[pipe] = pipe.read()


def _become(words: list[str], cwd: str, environment: dict[str, str], streams: Sequence[Connection]) -> None:
    """Become ``python WORDS``."""
    gc.freeze()  # what was imported before: to look through it is slow, and copies its pages
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    try:
        _run(words)
    except Exception:
        sys.excepthook(*sys.exc_info())  # as Python does, and multiprocessing does not
        sys.exit(1)


def _run(words: list[str]) -> None:
    kind, *rest = words
    sys.argv = rest if kind in ("-m", "-c") else words
    if kind == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(rest[0], {"__name__": "__main__"})
    else:
        runpy.run_path(kind, run_name="__main__")
