"""The one way to write a file: where the system refuses, the error names the file and says what was kept.

Functions that replace files and folders are in :mod:`nmt.files`; they are built on these.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from nmt.errors import NmtError

Mode = Literal["xb", "wb", "ab", "r+b"]

_BUFFER_BYTES = 128 * 1024
_RANDOM_BYTES = 6
_RANDOM = f"[0-9a-f]{{{2 * _RANDOM_BYTES}}}"
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
"""Codes of errors that come from the user's disks, quotas and permissions, and not from a mistake of ours."""


class WriteError(NmtError):
    """The system refused to write a file or folder: the disk is full, the quota used up, the disk broken and so on."""

    def __init__(
        self, path: Path | str, reason: str, *, code: int | None = None, kept: str = "", then: str = _AGAIN
    ) -> None:
        """Put the message together.

        Args:
            path: the file or folder that could not be written.
            reason: what the system says.
            code: its number (``errno``), which the advice depends on.
            kept: what was lost and what was kept, as sentences.
            then: what to do once the cause is gone, as a sentence.
        """
        self.path = Path(path)
        """The file or folder that could not be written."""
        self.reason = reason
        """What the system says."""
        self.code = code
        """The system's number for the reason; None where it gave none."""
        self.kept = kept
        """What was lost and what was kept."""
        self.then = then
        """What to do once the cause is gone."""
        sentences = [f"{path}: cannot be written ({reason}).", kept, _ADVICE.get(code or 0, ""), then]
        super().__init__(" ".join(filter(None, sentences)))

    @classmethod
    def of(cls, error: OSError, path: Path | str, *, kept: str = "") -> WriteError:
        """The error of a path that the system's error is about."""
        return cls(path, error.strerror or str(error), code=error.errno, kept=kept)

    @classmethod
    def of_native(cls, error: Exception, path: Path) -> WriteError:
        """The error of a path that a library of compiled code was to write; the code is in the library's message."""
        found = _NATIVE_CODE.search(str(error))
        code = int(found[1]) if found else None
        return cls(path, os.strerror(code) if code is not None else str(error), code=code)

    def changed(self, *, path: Path | None = None, kept: str | None = None, then: str | None = None) -> WriteError:
        """The same error with some parts put in place of its own."""
        error = WriteError(
            self.path if path is None else path,
            self.reason,
            code=self.code,
            kept=self.kept if kept is None else kept,
            then=self.then if then is None else then,
        )
        for note in getattr(self, "__notes__", ()):
            error.add_note(note)
        return error


@contextmanager
def writing(path: Path, *, kept: str = "") -> Iterator[None]:
    """Name a file or folder in the system's errors. To be put around calls that write it, and around nothing else.

    Raises:
        WriteError: the system refused.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError.of(error, path, kept=kept) from error


@contextmanager
def written_as(path: Path, temporary: Path, kept: Callable[[], str]) -> Iterator[None]:
    """Name the path that a file or folder will have in errors that name its temporary one.

    Args:
        kept: what was lost and what was kept, asked for when an error has come.
    """
    try:
        yield
    except WriteError as error:
        if not error.path.is_relative_to(temporary):
            raise
        raise error.changed(path=path / error.path.relative_to(temporary), kept=kept()) from error


class _NamingFile(io.FileIO):
    """A file whose errors in writing name it."""

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
        with writing(self._path):  # a network file system may tell only now
            super().close()


def open_to_write(path: Path, mode: Mode, *, follow: bool = True) -> BinaryIO:
    """Open a file, every write to which either succeeds or names the file.

    Args:
        mode: as of :func:`open`; with ``xb`` no file stands there before.
        follow: write to what a symbolic link leads to; if false, a link is an error.

    Raises:
        WriteError: the file cannot be opened, here; and from the methods of the stream.
    """
    return cast(BinaryIO, io.BufferedWriter(_NamingFile(path, mode, follow=follow), _BUFFER_BYTES))


def write_file(path: Path, content: bytes) -> None:
    """Write a file that is part of a folder which is not complete yet. No file stands there before.

    Raises:
        WriteError: the system refused.
    """
    with open_to_write(path, "xb", follow=False) as stream:
        stream.write(content)


def append(path: Path, content: bytes) -> None:
    """Append to a file, all or nothing; the bytes are handed to the system when the call returns.

    Raises:
        WriteError: the system refused; the file is as it was.
    """
    with _NamingFile(path, "ab", follow=True) as stream:
        before = stream.seek(0, os.SEEK_END)
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[stream.write(rest) :]
        except WriteError as error:
            with contextlib.suppress(WriteError):
                stream.truncate(before)
            raise error.changed(kept="What it held before is unchanged.") from error


def flush_to_disk(stream: BinaryIO, path: Path) -> None:
    """Bring what was written to a stream of :func:`open_to_write` to disk.

    Raises:
        WriteError: the system refused.
    """
    stream.flush()
    with writing(path):
        os.fsync(stream.fileno())


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of one's own in the place for temporary files, removed in the end.

    Raises:
        WriteError: the system refused to make it or to write into it.
    """
    then = "Then run the same command again. The variable TMPDIR may name a folder on another disk."
    try:
        with writing(Path(os.environ.get("TMPDIR") or "/tmp")):
            folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with folder as name:
            yield Path(name)
    except WriteError as error:
        raise error.changed(then=then) from error


def temporary_path(path: Path, ending: str = "tmp") -> Path:
    """A path beside another one that no other process will choose, whatever machine it runs on."""
    return path.with_name(f".{path.name}.{secrets.token_hex(_RANDOM_BYTES)}.{ending}")


def temporary_paths(path: Path, ending: str = "tmp") -> list[Path]:
    """What stands beside a path under names that :func:`temporary_path` gave: of other processes, dead or alive."""
    name = re.compile(rf"\.{re.escape(path.name)}\.{_RANDOM}\.{re.escape(ending)}")
    try:
        return [entry for entry in path.parent.iterdir() if name.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
