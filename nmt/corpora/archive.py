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
from typing import IO, Any, BinaryIO, NoReturn

from nmt.errors import DownloadError, NmtError
from nmt.io.files import replacing
from nmt.io.writing import WriteError
from nmt.text.compression import SUFFIXES, is_recognised, open_unpacked
from nmt.text.printable import has_control_characters

FETCH_AGAIN = " Delete it and fetch it again."
"""The advice at the end of a message about a damaged archive."""

_BLOCK = 1 << 20
_READ_AHEAD = 1 << 17
# An archive may unpack to this many times its size, or to this many bytes if that is more. Text: 3 to 10 times.
_MAX_RATIO = 100
_ALWAYS_ALLOWED = 256 << 20
# tarfile reads headers with names and comments into memory. Before Python 3.11.10 and 3.12.6 that takes quadratic time
# (CVE-2024-6232), so the maximum is low.
_LONGEST_HEADER = 1 << 14
# No file is larger. tarfile would pass over a member of 10^30 bytes block by block.
_LARGEST_MEMBER = 1 << 50
_HELD_IN_MEMORY = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_IS_END = (tarfile.EmptyHeaderError, tarfile.EOFHeaderError)  # type: ignore[attr-defined]
_ZIP_ENCRYPTED = 0x1
_ENDINGS = (".tar", ".tgz", ".tbz2", ".txz", ".zip", *SUFFIXES)


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
    except (NmtError, OSError) as error:
        _remove(taken)
        if isinstance(error, WriteError) and error.code in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
            raise DownloadError(f"{archive}: holds a file and a folder with the same name.") from None
        code = error.errno if isinstance(error, OSError) else getattr(error, "code", None)
        if code == errno.ENAMETOOLONG:
            raise DownloadError(
                f"{archive}: the name of its member {name[:100]!r}… is too long for the disk."
            ) from None
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


def check_whole(path: Path, *, name: str | None = None) -> bool:
    """Read an archive or a compressed file to its end, to check that it is complete.

    Args:
        name: the file's name if the path has another one; its ending says what kind of file is expected.

    Returns:
        False for a plain file, which cannot be checked.

    Raises:
        DownloadError: the file is damaged or truncated, or not what its name says.
    """
    with _as_download_error(path):
        if is_recognised(path):
            with open_limited(path) as unpacked:
                _drain(unpacked)
            return True
        if _is_tar(path):
            with path.open("rb") as plain:
                plain.seek(-2 * tarfile.BLOCKSIZE, io.SEEK_END)
                if any(plain.read()):
                    raise tarfile.ReadError("the two empty blocks at the end are missing")
            return True
        if zipfile.is_zipfile(path):
            for _, stream in _zipped_files(path, None):
                _drain(stream)
            return True
        if (name or path.name).endswith(_ENDINGS):
            raise tarfile.ReadError("it is neither an archive nor a compressed file")
    return False


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
    """A tar header that raises an error if it is bad; the standard library takes some for the archive's end."""

    @classmethod
    def frombuf(cls, *arguments: Any) -> Any:
        header = super().frombuf(*arguments)
        if header.type == tarfile.GNUTYPE_SPARSE:
            _refuse_sparse()  # before its map is read
        _check_size(header, _LONGEST_HEADER if header.type in _HELD_IN_MEMORY else _LARGEST_MEMBER)
        return header

    @classmethod
    def fromtarfile(cls, tarfile_: Any) -> Any:
        try:
            header = super().fromtarfile(tarfile_)
        except _IS_END:
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"bad header: {error}") from None
        _check_size(header, _LARGEST_MEMBER)  # again: a pax header may have changed it
        if header.issparse():
            _refuse_sparse()
        return header

    def _proc_gnusparse_10(self, *_: Any) -> None:
        _refuse_sparse()  # before its map is read


def _refuse_sparse() -> NoReturn:
    """Refuse a sparse file: its holes are no bytes of the archive, and its map is read without a limit."""
    raise tarfile.ReadError("a sparse file, which nmt does not read: repack it without the option --sparse")


def _check_size(header: tarfile.TarInfo, largest: int) -> None:
    if not 0 <= header.size <= largest:
        raise tarfile.ReadError(f"bad header: a size of {header.size:,} bytes")


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


def _drain(stream: IO[bytes] | io.RawIOBase) -> None:
    while stream.read(_BLOCK):
        pass


def _regular_files(archive: Path, members: Sequence[str] | None) -> Iterator[tuple[str, IO[bytes]]]:
    """The regular files among the members: name without a leading ``./``, and open stream.

    All names in the archive are checked, including those of other members.
    """
    with _as_download_error(archive):
        # A tar file whose last member is a stored zip archive ends like a zip archive.
        is_zip = not _is_tar(archive) and zipfile.is_zipfile(archive)
    yield from _zipped_files(archive, members) if is_zip else _tarred_files(archive, members)


def _is_tar(path: Path) -> bool:
    """Whether a file, decompressed if needed, begins with a tar header.

    Raises:
        tarfile.ReadError: it begins with one that is damaged or refused.
    """
    try:
        with open_limited(path) as stream:
            begins_as_tar = stream.read(tarfile.BLOCKSIZE)[257:262] == b"ustar"
        with open_limited(path) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header):
            return True
    except OSError as error:
        if _is_of_system(error):
            raise
        return False
    except tarfile.ReadError:
        if begins_as_tar:
            raise
        return False
    except Exception:
        return False


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
                if member.isreg() and (members is None or name in members):
                    budget.check(member.size, name)
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
        raise DownloadError(f"{archive}: is a damaged or truncated archive ({reason}).{FETCH_AGAIN}") from None


def _is_of_system(error: OSError) -> bool:
    """Whether the system could not read the file; otherwise its content is wrong, such as a negative offset."""
    return error.errno not in (None, errno.EINVAL)


def _check_name(archive: Path, name: str) -> None:
    if not safe_member(name):
        raise DownloadError(
            f"{archive}: refused, since its member {name!r} would be unpacked outside the folder, or contains a "
            "control character."
        )
