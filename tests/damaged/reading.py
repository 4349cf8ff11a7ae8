"""A process that reads damaged files, so that a crash, a hang and memory without end are seen and outlived."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.commands import forking

if TYPE_CHECKING:
    from tests.damaged.formats import Format

_MEMORY = 2 * 2**30
"""What a reader of a small file may take more than at its start, in bytes of addresses."""
_PATIENCE = 60.0
"""Seconds after which a reader hangs, on however busy a machine."""


class Outcome(NamedTuple):
    """How a file was read."""

    error: str | None
    """The message of an NmtError; None where the file was read."""
    fault: str | None
    """What should never happen: another exception with its traceback, a crash, a hang."""
    seconds: float
    """Of the processor."""


class NoFile(NamedTuple):
    """What stands in the place of a file: a link to a device, or a pipe that nobody writes to."""

    file: str
    """Below the thing's folder."""
    device: str | None


class Reader:
    """Hands damaged content to a process of its own, which is started again when it dies."""

    def __init__(self) -> None:
        self._context = forking()
        self._start()

    def _start(self) -> None:
        self._connection, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def content(self, name: str) -> bytes:
        """The content of a format's file when it is whole."""
        return self._whole(name)[0]

    def files(self, name: str) -> list[str]:
        """All files of a format's thing."""
        return self._whole(name)[1]

    def _whole(self, name: str) -> tuple[bytes, list[str]]:
        self._connection.send((name, None))
        content, files = self._connection.recv()
        return content, files

    def read(self, name: str, content: bytes | NoFile) -> Outcome:
        """Read a thing of a format with this content in the place of the file's, or with something else there."""
        try:
            self._connection.send((name, content))
            if self._connection.poll(_PATIENCE):
                return Outcome(*self._connection.recv())
            fault = f"hangs: no answer in {_PATIENCE:g} seconds"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(5)
            fault = f"the process died with exit status {self._process.exitcode}"
        self.close()
        self._start()
        return Outcome(None, fault, 0.0)

    def close(self) -> None:
        """End the process, which then removes its folder."""
        self._connection.close()
        self._process.join(5)
        self._process.kill()
        self._process.join()


def _serve(connection: Connection) -> None:
    """Answer to names of formats with whole content, and to damaged content with what became of it."""
    from tests.damaged.formats import FORMATS

    things: dict[str, _Thing] = {}
    with tempfile.TemporaryDirectory(prefix="damaged-") as root, contextlib.suppress(EOFError, OSError):
        while True:
            name, content = connection.recv()
            if name not in things:
                things[name] = _Thing(FORMATS[name], Path(root) / str(len(things)))
            connection.send(
                (things[name].whole, things[name].files) if content is None else things[name].outcome(content)
            )


class _Thing:
    """A valid thing of a format in a folder, whose file takes damaged content."""

    def __init__(self, form: Format, folder: Path) -> None:
        self._form, self._folder = form, folder
        self._whole_folder = folder.with_name(f"{folder.name}-whole")
        self._whole_folder.mkdir()
        form.make(self._whole_folder)
        self.whole = (self._whole_folder / form.file).read_bytes()
        found = (path for path in self._whole_folder.rglob("*") if path.is_file())
        self.files = sorted(str(path.relative_to(self._whole_folder)) for path in found)
        shutil.copytree(self._whole_folder, folder)
        self._has_changed = form.is_changed
        form.read(folder)  # which also imports what is imported late

    def outcome(self, content: bytes | NoFile) -> Outcome:
        """What becomes of damaged content."""
        if self._has_changed:
            shutil.rmtree(self._folder)
            shutil.copytree(self._whole_folder, self._folder)
        form = self._form
        self._has_changed = form.is_changed or isinstance(content, NoFile)
        if isinstance(content, NoFile):
            path = self._folder / content.file
            path.unlink()
            os.mkfifo(path) if content.device is None else path.symlink_to(content.device)
            form = replace(form, names=(*form.names, path.stem, *Path(content.file).parts))
        else:
            (self._folder / form.file).write_bytes(content)
        with _limited_memory():
            return _outcome(form, self._folder)


def _outcome(form: Format, folder: Path) -> Outcome:
    from nmt.errors import NmtError

    begin = time.process_time()
    error = fault = None
    try:
        form.read(folder)
    except NmtError as refused:
        error = str(refused).replace(str(folder), "FOLDER")
        fault = _fault_of(error, form)
    except BaseException:
        fault = traceback.format_exc(limit=-12)[-4_000:]
    return Outcome(error, fault, time.process_time() - begin)


def _fault_of(message: str, form: Format) -> str | None:
    """What is wrong with an error: it must be text that can be printed, and name the file."""
    try:
        message.encode()
    except UnicodeEncodeError:
        return f"an error that cannot be printed: {message!a}"
    if not any(name in message for name in form.named):
        return f"an error that does not name the file: {message!a}"
    return None


@contextlib.contextmanager
def _limited_memory() -> Iterator[None]:
    """Let a reader that asks for memory without end fail, rather than the machine."""
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
