"""Members of archives, taken out one by one: an archive never decides where a file goes, nor how much is unpacked."""

from __future__ import annotations

import errno
import io
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from nmt.compression import SUFFIXES, is_recognised, open_unpacked
from nmt.errors import DownloadError, NmtError
from nmt.files import replacing
from nmt.printable import has_control_characters
from nmt.writing import WriteError

FETCH_AGAIN = " Delete it and fetch it again."
"""Ends the message about a damaged archive."""

_BLOCK = 1 << 20
_READ_AHEAD = 1 << 17
# An archive may unpack to this many times its size, or to this many bytes where that is more. Text packs 3 to 10 times.
_MAX_RATIO = 100
_ALWAYS_ALLOWED = 256 << 20
# Headers of tar that hold names and comments are read into memory.
_LONGEST_HEADER = 1 << 20
_HELD_IN_MEMORY = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_ZIP_ENCRYPTED = 0x1
_ENDINGS = (".tar", ".tgz", ".tbz2", ".txz", ".zip", *SUFFIXES)


def unpack(archive: Path, members: Sequence[str] | None, folder: Path) -> list[Path]:
    """Take members out of a tar (plain or packed in any way) or zip archive.

    The whole archive is looked through, so that one which holds a dangerous name is refused however it is ordered.

    Args:
        archive: the file.
        members: the names of those to take, or None for every regular file.
        folder: where they go, each below it under its own name.

    Returns:
        The files, in the order of ``members`` (of the archive, if None).

    Raises:
        DownloadError: the archive is damaged or encrypted, packed by an unknown method, lacks a member, holds a name
            that leads out of the folder, or unpacks to far more than its own size.
    """
    taken: dict[str, Path] = {}
    budget = Budget(archive)
    try:
        for name, size, stream in _regular_files(archive, members):
            budget.check(size, name)
            taken[name] = folder / name
            _copy(archive, stream, taken[name])
            budget.spend(size)
    except NmtError as error:
        _remove(taken)
        if isinstance(error, WriteError) and error.code in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
            clash = f"{archive}: holds two members of which one is a folder of the other's name."
            raise DownloadError(clash) from None
        raise
    wanted = list(taken) if members is None else list(members)
    missing = [name for name in wanted if name not in taken]
    if missing:
        _remove(taken)
        raise DownloadError(f"{archive}: has no member {', '.join(missing)}. Is it the right archive?")
    return [taken[name] for name in wanted]


def check_whole(path: Path, *, name: str | None = None) -> bool:
    """Read an archive or a compressed file to its end, to see whether all of it is there.

    Args:
        name: of the file, where the path has another; its ending tells what the file should be.

    Returns:
        False for a plain file, which does not tell where it should end.

    Raises:
        DownloadError: the file is damaged or truncated, or not what its name says.
    """
    with _explained(path):
        if is_recognised(path):
            with _Unpacked(path) as unpacked:
                _drain(unpacked)
            return True
        if _is_tar(path):
            with path.open("rb") as plain:
                plain.seek(-2 * tarfile.BLOCKSIZE, io.SEEK_END)
                if any(plain.read()):
                    raise tarfile.ReadError("it ends without the two empty blocks of a tar archive")
            return True
        if zipfile.is_zipfile(path):
            budget = Budget(path)
            for name_of_member, size, stream in _zipped_files(path, None):
                budget.check(size, name_of_member)
                _drain(stream)
                budget.spend(size)
            return True
        if (name or path.name).endswith(_ENDINGS):
            raise tarfile.ReadError("it is neither an archive nor a compressed file")
    return False


def safe_member(name: str) -> bool:
    """Whether a member's name stays below the folder that it is taken out to."""
    path = PurePosixPath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and "\\" not in name
        and not has_control_characters(name)
    )


class Budget:
    """How many bytes an archive or compressed file may still unpack to."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._allowed = max(_ALWAYS_ALLOWED, _MAX_RATIO * archive.stat().st_size)
        self._left = self._allowed

    def check(self, size: int, what: str) -> None:
        """Refuse what declares more bytes than are left, before any of them is unpacked."""
        if size > self._left:
            raise self._exceeded(f"its member {what} has {size:,} bytes")

    def spend(self, size: int) -> None:
        """Count bytes that were unpacked."""
        self._left -= size
        if self._left < 0:
            raise self._exceeded("there is more after those")

    def _exceeded(self, found: str) -> DownloadError:
        return DownloadError(
            f"{self._archive}: would unpack to more than {self._allowed:,} bytes, too many for its size ({found}). If "
            "you trust it, unpack it yourself and use its files with kind: local."
        )


class _Unpacked(io.RawIOBase):
    """A file, unpacked if it is compressed, as a stream that ends with an error where it unpacks to too many bytes."""

    def __init__(self, path: Path) -> None:
        self._stream = open_unpacked(path)
        self._budget = Budget(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        self._budget.spend(len(block))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Header(tarfile.TarInfo):
    """A header of tar that is refused where the standard library takes a bad one for the archive's end."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> Any:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):  # The end: empty blocks, or none.
                raise
            raise tarfile.ReadError(f"bad header: {error}") from None
        if header.size < 0 or (header.type in _HELD_IN_MEMORY and header.size > _LONGEST_HEADER):
            raise tarfile.ReadError(f"bad header: a size of {header.size:,} bytes")
        return header


def _copy(archive: Path, stream: IO[bytes], path: Path) -> None:
    """Write a member to a file; what goes wrong in reading is told apart from what goes wrong in writing."""
    with replacing(path) as out:
        while True:
            with _explained(archive):
                block = stream.read(_BLOCK)
            if not block:
                return
            out.write(block)


def _remove(taken: dict[str, Path]) -> None:
    for path in taken.values():
        path.unlink(missing_ok=True)


def _drain(stream: IO[bytes] | io.RawIOBase) -> None:
    while stream.read(_BLOCK):
        pass


def _regular_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Each regular file among the members as its name, without a leading ``./``, its size and its open content.

    All names of the archive are checked, also of those that are not among the members.
    """
    with _explained(archive):
        # A tar whose last member is a zip archive, unpacked, ends as a zip archive does.
        is_zip = not _is_tar(archive) and zipfile.is_zipfile(archive)
    yield from _zipped_files(archive, members) if is_zip else _tarred_files(archive, members)


def _is_tar(path: Path) -> bool:
    """Whether a file, unpacked, begins with a header of tar."""
    try:
        with _Unpacked(path) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header):
            return True
    except OSError as error:
        if _is_of_system(error):
            raise
        return False
    except Exception:
        return False


def _zipped_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, int, IO[bytes]]]:
    with _explained(archive):
        zipped = zipfile.ZipFile(archive)
    with zipped:
        for entry in zipped.infolist():
            _check_name(archive, entry.filename)
            name = str(PurePosixPath(entry.filename))
            if entry.is_dir() or not (members is None or name in members):
                continue
            if entry.flag_bits & _ZIP_ENCRYPTED:
                raise DownloadError(
                    f"{archive}: its member {name} is encrypted, and nmt asks for no passwords. Unpack it yourself, "
                    "and use its files with kind: local."
                )
            with _explained(archive):
                stream = zipped.open(entry)
            with stream:
                yield name, entry.file_size, stream


def _tarred_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, int, IO[bytes]]]:
    # Read as a stream: a packed archive is unpacked once, from front to back.
    with _explained(archive):
        stream = _Unpacked(archive)
    with stream:
        with _explained(archive):
            tar = tarfile.open(fileobj=stream, mode="r|", bufsize=_READ_AHEAD, tarinfo=_Header)  # noqa: SIM115
        with tar:
            while True:
                with _explained(archive):
                    member = tar.next()
                    tar.members.clear()  # type: ignore[attr-defined]  # All are remembered, of perhaps millions.
                if member is None:
                    return
                _check_name(archive, member.name)
                name = str(PurePosixPath(member.name))
                if member.isreg() and (members is None or name in members):
                    with _explained(archive):
                        content = tar.extractfile(member)
                    if content is not None:
                        yield name, member.size, content


@contextmanager
def _explained(archive: Path) -> Iterator[None]:
    """Turn what the readers of archives raise into one kind of error.

    They raise almost anything on bad headers: struct.error, RecursionError, UnicodeDecodeError, errors of the system
    without a number.
    """
    try:
        yield
    except NotImplementedError as error:
        raise DownloadError(
            f"{archive}: is packed by a method that nmt cannot read ({error}). Pack it anew, for example as .tar.gz."
        ) from None
    except NmtError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and _is_of_system(error):
            raise DownloadError(f"{archive}: cannot be read ({error.strerror}).") from None
        reason = str(error) or type(error).__name__
        raise DownloadError(f"{archive}: is a damaged or truncated archive ({reason}).{FETCH_AGAIN}") from None


def _is_of_system(error: OSError) -> bool:
    """Whether an error is about the file as the system has it, not about its content, such as an offset below 0."""
    return error.errno not in (None, errno.EINVAL)


def _check_name(archive: Path, name: str) -> None:
    if not safe_member(name):
        raise DownloadError(
            f"{archive}: holds a member {name!r}, which leads out of the folder that it is unpacked to, or holds a "
            "control character. It is refused as a whole."
        )
