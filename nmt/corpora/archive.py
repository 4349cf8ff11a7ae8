"""Safe unpacking: an archive cannot choose where its members are written, nor how many bytes are unpacked."""

from __future__ import annotations

import errno
import io
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from nmt.errors import DownloadError, NmtError
from nmt.io.files import replacing
from nmt.text.compression import open_unpacked
from nmt.text.printable import has_control_characters

_BLOCK = 1 << 20
_READ_AHEAD = 1 << 17
# An archive may unpack to this many times its size, or to this many bytes if that is more. Text: 3 to 10 times.
_MAX_RATIO = 100
_ALWAYS_ALLOWED = 256 << 20
_ZIP_ENCRYPTED = 0x1
_ZIP_BEGINNINGS = (b"PK\x03\x04", b"PK\x05\x06")


def unpack(archive: Path, members: Sequence[str] | None, folder: Path) -> list[Path]:
    """Unpack members of a tar (plain or compressed) or zip archive.

    All names in the archive are checked, so an archive with a dangerous name is refused wherever the name is.

    Args:
        archive: the file.
        members: the names of the members to unpack, or None for every regular file.
        folder: each member is written below it, under its own name.

    Returns:
        The files, in the order of ``members`` (of the archive, if None).

    Raises:
        DownloadError: the archive is damaged or encrypted, uses an unknown compression method, lacks a member, holds a
            name that leads outside the folder, or unpacks to far more than its own size.
    """
    taken: dict[str, Path] = {}
    if members is not None:
        members = [str(PurePosixPath(name)) for name in members]
    try:
        for name, stream in _regular_files(archive, members):
            taken[name] = folder / name
            _copy(archive, stream, taken[name])
    except (NmtError, OSError):
        _remove(taken)
        raise
    wanted = list(taken) if members is None else list(members)
    missing = [name for name in wanted if name not in taken]
    if missing:
        _remove(taken)
        raise DownloadError(f"{archive}: has no member {', '.join(missing)}. Is it the right archive?")
    return [taken[name] for name in wanted]


@contextmanager
def opened_zip(archive: Path) -> Iterator[ZippedMembers]:
    """Open a zip archive to read members as streams, without writing them to disk.

    Raises:
        DownloadError: the file is no zip archive or a damaged one, or it holds a name twice or outside its folder.
    """
    with _as_download_error(archive):
        zipped = zipfile.ZipFile(archive)
    with zipped:
        yield ZippedMembers(archive, zipped)


class ZippedMembers:
    """The members of an open zip archive. All that is read counts towards the archive's budget."""

    def __init__(self, archive: Path, zipped: zipfile.ZipFile) -> None:
        """Check all names; see :func:`opened_zip`."""
        for name, count in Counter(zipped.namelist()).items():
            _check_name(archive, name)
            if count > 1 and not name.endswith("/"):
                raise DownloadError(f"{archive}: holds two files named {name}. Unpack it, and name the right ones.")
        self._archive = archive
        self._zipped = zipped
        self._budget = Budget(archive)
        self._entries = {entry.filename: entry for entry in zipped.infolist() if not entry.is_dir()}

    @property
    def names(self) -> list[str]:
        """The names of the regular files, in the order of the archive."""
        return list(self._entries)

    def open(self, name: str) -> BinaryIO:
        """A member as a stream. Several may be read at the same time.

        Raises:
            DownloadError: the member is encrypted or damaged, or unpacks to too many bytes; also while it is read.
        """
        entry = self._entries[name]
        if entry.flag_bits & _ZIP_ENCRYPTED:
            raise DownloadError(
                f"{self._archive}: its member {PurePosixPath(name)} is encrypted, which nmt does not support. Unpack "
                "it yourself, and name its files by their paths."
            )
        self._budget.check(entry.file_size, name)
        with _as_download_error(self._archive):
            stream = self._zipped.open(entry)
        return _limited(self._archive, stream, self._budget)


def safe_member(name: str) -> bool:
    """Whether a member's name stays inside the folder that it is unpacked to, and is printable."""
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
        """Refuse a member whose declared size exceeds the remaining budget, before it is unpacked."""
        if size > self._left:
            raise self._exceeded(f"its member {what} has {size:,} bytes")

    def spend(self, size: int) -> None:
        """Count bytes that were unpacked."""
        self._left -= size
        if self._left < 0:
            raise self._exceeded("more bytes follow")

    def _exceeded(self, found: str) -> DownloadError:
        return DownloadError(
            f"{self._archive}: unpacks to more than {self._allowed:,} bytes, too many for its size ({found}). If you "
            "trust it, unpack it yourself and name its files by their paths."
        )


def open_limited(path: Path) -> BinaryIO:
    """Open a file of others, decompressed if needed.

    Raises:
        DownloadError: it is damaged, or unpacks to far more than its own size; while it is read.
        OSError: it cannot be read.
    """
    return _limited(path, open_unpacked(path), Budget(path))


def _limited(archive: Path, stream: IO[bytes], budget: Budget) -> BinaryIO:
    return io.BufferedReader(_Limited(archive, stream, budget), _READ_AHEAD)


class _Limited(io.RawIOBase):
    """A file or member as it is read: errors name the archive, and bytes are counted."""

    def __init__(self, archive: Path, stream: IO[bytes], budget: Budget) -> None:
        self._archive = archive
        self._stream = stream
        self._budget = budget

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _as_download_error(self._archive):
            block = self._stream.read(len(buffer))
        self._budget.spend(len(block))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Header(tarfile.TarInfo):
    """A tar header. The standard library takes a damaged one after the first for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: Any) -> Any:
        try:
            return super().fromtarfile(tarfile_)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"bad header: {error}") from None


def _copy(archive: Path, stream: IO[bytes], path: Path) -> None:
    """Write a member to a file; only errors in reading are reported as faults of the archive."""
    with replacing(path) as out:
        while True:
            with _as_download_error(archive):
                block = stream.read(_BLOCK)
            if not block:
                return
            out.write(block)


def _remove(taken: dict[str, Path]) -> None:
    for path in taken.values():
        with suppress(OSError):  # A name too long, for example, was never written.
            path.unlink()


def _regular_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, IO[bytes]]]:
    """The regular files among the members: name without a leading ``./``, and open stream.

    All names in the archive are checked, including those of other members.
    """
    with _as_download_error(archive), archive.open("rb") as stream:
        is_zip = stream.read(4) in _ZIP_BEGINNINGS
    yield from _zipped_files(archive, members) if is_zip else _tarred_files(archive, members)


def _zipped_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, IO[bytes]]]:
    with opened_zip(archive) as zipped:
        for entry in zipped.names:
            name = str(PurePosixPath(entry))
            if members is None or name in members:
                with zipped.open(entry) as stream:
                    yield name, stream


def _tarred_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, IO[bytes]]]:
    budget = Budget(archive)
    # Read as a stream, so that a compressed archive is decompressed only once.
    with _as_download_error(archive):
        stream = _limited(archive, open_unpacked(archive), budget)
    with stream:
        with _as_download_error(archive):
            tar = tarfile.open(fileobj=stream, mode="r|", bufsize=_READ_AHEAD, tarinfo=_Header)  # noqa: SIM115
        with tar:
            while True:
                with _as_download_error(archive):
                    member = tar.next()
                    tar.members.clear()  # type: ignore[attr-defined]  # tarfile keeps all members, perhaps millions.
                if member is None:
                    return
                _check_name(archive, member.name)
                name = str(PurePosixPath(member.name))
                budget.check(member.size, name)  # Also if it is not wanted: tarfile passes over it block by block.
                if member.isreg() and (members is None or name in members):
                    if member.issparse():  # The budget does not count its holes.
                        raise DownloadError(f"{archive}: its member {name} is sparse. Repack it without --sparse.")
                    with _as_download_error(archive):
                        content = tar.extractfile(member)
                    if content is not None:
                        yield name, content


@contextmanager
def _as_download_error(archive: Path) -> Iterator[None]:
    """Turn the errors of archive readers into DownloadError.

    On bad headers they raise almost anything: struct.error, RecursionError, UnicodeDecodeError, OSError without errno.
    """
    try:
        yield
    except NotImplementedError as error:
        raise DownloadError(
            f"{archive}: uses a compression method that nmt cannot read ({error}). Repack it, for example as .tar.gz."
        ) from None
    except NmtError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and _is_of_system(error):
            raise DownloadError(f"{archive}: cannot be read ({error.strerror}).") from None
        reason = str(error) or type(error).__name__
        raise DownloadError(
            f"{archive}: is a damaged or truncated archive ({reason}). Delete it and fetch it again."
        ) from None


def _is_of_system(error: OSError) -> bool:
    """Whether the system could not read the file; otherwise its content is wrong, such as a negative offset."""
    return error.errno not in (None, errno.EINVAL)


def _check_name(archive: Path, name: str) -> None:
    if not safe_member(name):
        raise DownloadError(
            f"{archive}: refused, since its member {name!r} would be unpacked outside the folder, or contains a "
            "control character."
        )
