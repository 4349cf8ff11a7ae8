"""One process at a time: a lock that leaves no file behind and that dies with its holder."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import NmtError

try:
    import fcntl
except ImportError:  # Windows
    raise NmtError("nmt runs on Linux and macOS. On Windows run it within WSL.") from None

_CONTENT = re.compile(rb"(\d+ on \S*)?")
_MOST_BYTES = 300


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock that a path names.

    The lock belongs to the open file, so that a killed process gives it up. The file is removed on leaving; a
    process that waited on the removed one notices, and locks the next.

    Args:
        path: the file to lock; it is made, and removed again.
        wait: wait for another holder, instead of raising.

    Raises:
        BlockingIOError: another process holds the lock and ``wait`` is false.
        FileExistsError: the file holds something that no lock holds.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if not _CONTENT.fullmatch(os.pread(descriptor, _MOST_BYTES, 0)):
                raise FileExistsError(errno.EEXIST, "a file that is no lock stands in its place", str(path))
            if _names(path, descriptor):
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode())
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def is_lock(path: Path) -> bool:
    """Whether a file is a lock, or the leaving of one whose holder was killed."""
    if not (path.name.startswith(".") and path.name.endswith(".lock") and path.is_file()):
        return False
    with path.open("rb") as stream:
        return bool(_CONTENT.fullmatch(stream.read(_MOST_BYTES)))


def holder(path: Path) -> str:
    """Who holds the lock that a path names, for people."""
    try:
        return path.read_text("utf-8") or "unknown"
    except OSError:
        return "unknown"


def _names(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
