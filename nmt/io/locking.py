"""A lock between processes: it ends with its holder and leaves no file behind."""

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

# The name of the holder. A power cut may leave an empty file or zeros instead.
_CONTENT = re.compile(rb"(\d+ on \S*)?\0*")
_MAX_BYTES = 300
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK  # Otherwise a pipe at the path would block.
# Errors of network or cluster file systems that are mounted without locks.
_WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})


@contextmanager
def exclusive(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock at a path.

    The lock belongs to the open file, so a killed process releases it. The file is removed at the end. A process that
    waited for the removed file notices, and locks the next one. If the file system has no locks, a
    :class:`NmtWarning` says so, and the body runs without a lock.

    Args:
        path: the file to lock; it is created and removed. A link is not followed.
        wait: wait for another holder instead of raising an error.

    Raises:
        BlockingIOError: another process holds the lock and ``wait`` is false.
        FileExistsError: the path is a link, or a file that is not a lock.
        OSError: the file cannot be created.
    """
    while True:
        descriptor, is_writable = _open(path)
        try:
            _lock(path, descriptor, wait=wait)
            _check_is_lock(path, descriptor)
            # The file of another user is locked as it is if it cannot be removed.
            if _names(path, descriptor) and (is_writable or not _removed(path)):
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        if is_writable:
            os.truncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        _removed(path)
        os.close(descriptor)


def _open(path: Path) -> tuple[int, bool]:
    """A descriptor of the file, and whether it is writable. Another user's file may be read-only; it can be locked."""
    try:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o666), True
        except PermissionError as error:
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, os.O_RDONLY | _SAFELY), False
            raise error from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise FileExistsError(errno.EEXIST, "its place is taken by a link", str(path)) from None
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
    is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink <= 1  # Writing would change a file with another name.
    if not is_plain or not _CONTENT.fullmatch(os.pread(descriptor, _MAX_BYTES, 0)):
        raise FileExistsError(errno.EEXIST, "its place is taken by a file that is not a lock", str(path))


def _removed(path: Path) -> bool:
    """Remove the file of a lock that is held, if permitted: in some shared folders, only its owner may remove it.

    Returns:
        Whether the file is gone.
    """
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


def is_lock(path: Path) -> bool:
    """Whether a file is a lock, possibly left by a holder that was killed."""
    if not (path.name.startswith(".") and path.name.endswith(".lock") and stat.S_ISREG(path.lstat().st_mode)):
        return False
    with path.open("rb") as stream:
        return bool(_CONTENT.fullmatch(stream.read(_MAX_BYTES)))


def holder(path: Path) -> str:
    """The holder of the lock at a path, for messages."""
    try:
        return path.read_text("utf-8") or "unknown"
    except OSError:
        return "unknown"


def is_held(path: Path) -> bool:
    """Whether a process holds the lock at a path. False if that cannot be found out."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _SAFELY)) as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)  # which closing ends
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _names(path: Path, descriptor: int) -> bool:
    """Whether the path is still that of the open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
