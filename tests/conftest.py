"""Fixtures that several folders share."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import os
import random
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import hypothesis
import pytest

# No test asserts a time: on a busy machine an example may take long. Every run draws the same examples, so that what
# fails fails again; `pytest --hypothesis-profile random` draws others.
hypothesis.settings.register_profile("random", deadline=None)
hypothesis.settings.register_profile("nmt", deadline=None, derandomize=True)
hypothesis.settings.load_profile("nmt")

# Triton reads this when it is imported: without a GPU, its interpreter runs kernels on the CPU.
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:
    os.environ["TRITON_INTERPRET"] = "1"

# A shell starts a background command with SIGINT ignored, and nohup one with SIGHUP ignored. The commands under test
# would inherit that, and the tests that send them these signals would wait for ever.
if threading.current_thread() is threading.main_thread():
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Let the garbage collector of Python pass by what torch and the collected tests are, for as long as tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let the commands under test keep what they remember of the machine away from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("NO_PROXY", "127.0.0.1,::1,localhost")  # the servers of tests
        yield


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Callable[..., Path]:
    """Make a folder that takes long: the first worker that needs it makes it, and each takes a copy."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if hasattr(pytestconfig, "workerinput") else base  # of several workers, the parent is common

    def copy(name: str, make: Callable[[Path], None]) -> Path:
        made = shared / f"made-{name}"
        with made.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (made / "finished").exists():
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
                make(made)
                (made / "finished").touch()
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(made, folder, symlinks=True, dirs_exist_ok=True, ignore=shutil.ignore_patterns("finished"))
        return folder

    return copy


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Draw the same numbers in a test whatever ran before it."""
    random.seed(0)
    if torch := sys.modules.get("torch"):  # most tests of commands do without it
        torch.default_generator.manual_seed(0)  # torch.manual_seed also formats a stack trace
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(0)


@dataclass
class FileServer:
    """A web server on loopback that serves what a test puts into it, and misbehaves as it is told."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    """By path, without the leading slash."""
    cut_after: dict[str, list[int]] = field(default_factory=dict)
    """By path, for each answer to come: how many bytes of its body go out before the connection breaks."""
    statuses: dict[str, list[int]] = field(default_factory=dict)
    """By path, for each answer to come: a status to answer with instead."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every file."""
    ranges: bool = True
    """Whether it honours the Range header."""
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    """What was asked for: path and Range header."""
    authorizations: list[str | None] = field(default_factory=list)
    """The Authorization header of each request."""
    lengths: bool = True
    """Whether it sends the length of a body; without one, a body ends where the connection does."""
    other_ranges: dict[str, list[int]] = field(default_factory=dict)
    """By path, for each ranged answer to come: where it starts, whatever was asked for."""
    redirects: dict[str, str] = field(default_factory=dict)
    """By path, the address to ask instead."""


@pytest.fixture
def file_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A running file server; nothing is in it yet."""
    state = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            wanted = self.headers.get("Range")
            state.requests.append((path, wanted))
            state.authorizations.append(self.headers.get("Authorization"))
            statuses = state.statuses.get(path)
            content = state.files.get(path)
            if path in state.redirects:
                self.send_response(302)
                self.send_header("Location", state.redirects[path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if statuses or content is None:
                self.send_response(statuses.pop(0) if statuses else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and state.ranges else 0
            if start and start >= len(content):
                self.send_response(416)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                start = state.other_ranges[path].pop(0) if state.other_ranges.get(path) else start
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            body = content[start:]
            if state.lengths:
                self.send_header("Content-Length", str(len(body)))
            else:
                self.send_header("Connection", "close")
            for name, value in state.headers.items():
                self.send_header(name, value)
            self.end_headers()
            cuts = state.cut_after.get(path)
            if cuts:
                self.wfile.write(body[: cuts.pop(0)])
                self.close_connection = True
                return
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()
