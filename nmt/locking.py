"""One process at a time: a lock that leaves no file behind and that dies with its holder."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.errors import NmtError, NmtWarning

try:
    import fcntl
except ImportError:  # Windows
    raise NmtError("nmt runs on Linux and macOS. On Windows run it within WSL.") from None

# The name of a holder, or what a power cut leaves of it: nothing, or zeros.
_CONTENT = re.compile(rb"(\d+ on \S*)?\0*")
_MOST_BYTES = 300
# A network or cluster file system that is mounted without locks.
_WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock that a path names.

    The lock belongs to the open file, so that a killed process gives it up. The file is removed on leaving; a
    process that waited on the removed one notices, and locks the next. Where the file system has no locks, a
    :class:`NmtWarning` says so and the body runs without one.

    Args:
        path: the file to lock; it is made, and removed again. A link is not followed.
        wait: wait for another holder, instead of raising.

    Raises:
        BlockingIOError: another process holds the lock and ``wait`` is false.
        FileExistsError: a link stands at the path, or a file that holds something that no lock holds.
        OSError: the file cannot be made.
    """
    while True:
        descriptor, is_writable = _open(path)
        try:
            _lock(path, descriptor, wait=wait)
            _check_is_lock(path, descriptor)
            if _names(path, descriptor) and (is_writable or not _removed(path)):
                if is_writable:
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
        _removed(path)
        os.close(descriptor)


def _open(path: Path) -> tuple[int, bool]:
    """A descriptor of the file, and whether the file may be written: another user's may not, but can be locked."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe in its place would be waited for
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666), True
        except PermissionError as error:
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | flags), False
            raise error from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise FileExistsError(errno.EEXIST, "a link stands in its place", str(path)) from None
        raise


def _lock(path: Path, descriptor: int, *, wait: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise OSError(error.errno, error.strerror, str(path)) from None
        warnings.warn(
            f"{path.parent}: this file system has no locks ({error.strerror}), so nothing keeps two processes from the "
            "same work. Run one command at a time there, or use another file system.",
            NmtWarning,
            stacklevel=4,
        )


def _check_is_lock(path: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1  # written through another name, it would be lost
    if not is_plain or not _CONTENT.fullmatch(os.pread(descriptor, _MOST_BYTES, 0)):
        raise _no_lock(path)


def _no_lock(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "a file that is no lock stands in its place", str(path))


def _removed(path: Path) -> bool:
    """Remove the file of a lock that is held; whether it is gone. In some shared folders only its owner may."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


def is_lock(path: Path) -> bool:
    """Whether a file is a lock, or the leaving of one whose holder was killed."""
    if not (path.name.startswith(".") and path.name.endswith(".lock") and stat.S_ISREG(path.lstat().st_mode)):
        return False
    with path.open("rb") as stream:
        return bool(_CONTENT.fullmatch(stream.read(_MOST_BYTES)))


def holder(path: Path) -> str:
    """Who holds the lock that a path names, for people."""
    try:
        return path.read_text("utf-8") or "unknown"
    except OSError:
        return "unknown"


def is_held(path: Path) -> bool:
    """Whether the process that a lock names is alive; false where it runs on another machine, or none is named."""
    try:
        match = re.fullmatch(r"(\d+) on (\S*)", path.read_text("utf-8"))
        if match is None or match[2] != socket.gethostname():
            return False
        os.kill(int(match[1]), 0)
    except PermissionError:
        return True  # of another user
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _names(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
