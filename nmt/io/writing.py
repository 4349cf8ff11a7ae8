"""Opening, writing and flushing files: if the system refuses, the error names the file.

The functions in :mod:`nmt.io.files`, which replace files and folders, use these.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from nmt.errors import NmtError

Mode = Literal["xb", "wb", "ab", "r+b"]

_BUFFER_BYTES = 128 * 1024
_RANDOM_BYTES = 6
_RANDOM = f"[0-9a-f]{{{2 * _RANDOM_BYTES}}}"
_HIDDEN = re.compile(rf"\A\.(.+)\.(?:{_RANDOM}\.(?:tmp|scratch)|nmt\.old|nmt\.lock)\Z", re.DOTALL)
"""Names beside a file or folder while it is written."""
_AGAIN = "Then run the same command again."
_NATIVE_CODE = re.compile(r"(?:os error |code: )(\d+)")

_ADVICE = {
    errno.ENOSPC: "Free space on that file system.",
    errno.EDQUOT: "Free space within your quota.",
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`), or use a file system that takes larger ones.",
    errno.EIO: "Check the disk or the network mount.",
    errno.ESTALE: "Check the network mount.",
    errno.EACCES: "Allow writing there, or name another place.",
    errno.EPERM: "Allow writing there, or name another place.",
    errno.EROFS: "Mount that file system for writing, or name another place.",
    errno.ELOOP: "Remove the symbolic link.",
    errno.EEXIST: "Name another place.",
    errno.ENOTDIR: "Name another place.",
}
FAULTS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE, errno.EACCES, errno.EPERM, errno.EROFS}
    | {errno.ENOLCK, errno.EMFILE, errno.ENFILE, errno.ENXIO, errno.ENODEV}
)
"""Codes of errors that are caused by the user's disks, quotas and permissions, not by a bug of this program."""


class WriteError(NmtError):
    """The system refused to write a file or folder: the disk is full or broken, the quota is exceeded, and so on."""

    def __init__(self, path: Path | str, reason: str, *, code: int | None = None) -> None:
        """Join the parts of the message.

        Args:
            path: the file or folder that could not be written. A temporary path stands for the final one.
            reason: the system's message.
            code: the system's error number (``errno``), which selects the advice.
        """
        self.path = final_path(Path(path))
        """The file or folder that could not be written."""
        self.code = code
        """The system's error number; None if unknown."""
        self._what = " ".join(filter(None, (f"{self.path}: cannot be written ({reason}).", _ADVICE.get(code or 0))))
        super().__init__(f"{self._what} {_AGAIN}")

    @property
    def lacks_room(self) -> bool:
        """Whether the disk or the user's quota is full, which may change while a process waits."""
        return self.code in (errno.ENOSPC, errno.EDQUOT)

    def advise(self, then: str) -> None:
        """Say what to do once the cause is fixed, instead of running the same command again."""
        self.args = (f"{self._what} {then}",)

    @classmethod
    def of(cls, error: OSError, path: Path | str) -> WriteError:
        """The error for a path, made from the system's error."""
        return cls(path, error.strerror or str(error), code=error.errno)

    @classmethod
    def of_native(cls, error: Exception, path: Path) -> WriteError:
        """The error for a path that a compiled library could not write; the code is read from the library's message."""
        found = _NATIVE_CODE.search(str(error))
        code = int(found[1]) if found else None
        return cls(path, os.strerror(code) if code is not None else str(error), code=code)


def temporary_path(path: Path, ending: Literal["tmp", "scratch"] = "tmp") -> Path:
    """A path beside another one that no other process on any machine will choose.

    Args:
        ending: ``tmp`` if the result gets the name of ``path``, ``scratch`` if it is used only meanwhile.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(_RANDOM_BYTES)}.{ending}")


def temporary_paths(path: Path) -> list[Path]:
    """The temporary paths beside a path that :func:`temporary_path` gave to any process, running or dead."""
    name = re.compile(rf"\.{re.escape(path.name)}\.{_RANDOM}\.(?:tmp|scratch)")
    try:
        return [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def final_path(path: Path) -> Path:
    """The path that a file or folder gets once it is complete: without the temporary names in it.

    A file in a scratch folder gets no other path, so it stands for the folder that is being written.
    """
    for folder in path.parents:
        if folder.suffix == ".scratch" and _HIDDEN.fullmatch(folder.name):
            path = folder
    return Path(*(_HIDDEN.sub(r"\1", part) for part in path.parts))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn system errors into errors that name a file or folder. Put it only around calls that write that path.

    Raises:
        WriteError: the system refused.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError.of(error, path) from error


class _NamingFile(io.FileIO):
    """A file whose write errors name it."""

    def __init__(self, path: Path, mode: Mode, *, follow: bool) -> None:
        self._path = path
        with writing(path):
            super().__init__(
                path, mode, opener=lambda name, flags: os.open(name, flags | (0 if follow else os.O_NOFOLLOW), 0o666)
            )

    def write(self, data: Any) -> int:
        with writing(self._path):
            return os.write(self.fileno(), data)

    def truncate(self, size: int | None = None) -> int:
        with writing(self._path):
            return super().truncate(size)

    def close(self) -> None:
        with writing(self._path):  # A network file system may report an error only now.
            super().close()


def open_to_write(path: Path, mode: Mode, *, follow: bool = True) -> BinaryIO:
    """Open a file whose write errors name it.

    Args:
        mode: as for :func:`open`; with ``xb`` the file must not exist.
        follow: follow a symbolic link; if false, a link is an error.

    Raises:
        WriteError: the file cannot be opened. The stream's methods raise it too.
    """
    return cast(BinaryIO, io.BufferedWriter(_NamingFile(path, mode, follow=follow), _BUFFER_BYTES))


def write_file(path: Path, content: bytes) -> None:
    """Write a file into a folder that is not complete yet. The file must not exist.

    Raises:
        WriteError: the system refused.
    """
    with open_to_write(path, "xb", follow=False) as stream:
        stream.write(content)


def append(path: Path, content: bytes) -> None:
    """Append to a file, all or nothing. When the call returns, the system has the bytes.

    Raises:
        WriteError: the system refused; the file is unchanged.
    """
    with _NamingFile(path, "ab", follow=True) as stream:
        before = stream.seek(0, os.SEEK_END)
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[stream.write(rest) :]
        except WriteError:
            with contextlib.suppress(WriteError):
                stream.truncate(before)
            raise


def flush_to_disk(stream: BinaryIO, path: Path) -> None:
    """Flush a stream of :func:`open_to_write` to disk.

    Raises:
        WriteError: the system refused.
    """
    stream.flush()
    with writing(path):
        os.fsync(stream.fileno())


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A private temporary folder, removed at the end.

    Raises:
        WriteError: the system refused to make the folder or to write into it.
    """
    scratch = Path(os.environ.get("TMPDIR") or "/tmp")
    try:
        with writing(scratch):
            folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        scratch = Path(folder.name)
        with folder:
            yield scratch
    except WriteError as error:
        if error.path.is_relative_to(scratch):  # not of a file that was written elsewhere meanwhile
            error.advise(f"{_AGAIN} The variable TMPDIR may name a folder on another disk.")
        raise
