"""Members of archives, taken out one by one: an archive never decides where a file goes."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from typing import IO

from nmt.errors import DownloadError
from nmt.files import replacing


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
        DownloadError: the archive is damaged, lacks a member, or holds a name that leads out of the folder.
    """
    taken: dict[str, Path] = {}
    try:
        for name, stream in _regular_files(archive):
            if members is None or name in members:
                taken[name] = folder / name
                with replacing(taken[name]) as out:
                    shutil.copyfileobj(stream, out, 1 << 20)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, LZMAError, gzip.BadGzipFile) as error:
        _remove(taken)
        raise DownloadError(
            f"{archive}: damaged or truncated archive ({error}). Delete it and fetch it again."
        ) from None
    except DownloadError:
        _remove(taken)
        raise
    wanted = list(taken) if members is None else list(members)
    missing = [name for name in wanted if name not in taken]
    if missing:
        _remove(taken)
        raise DownloadError(f"{archive}: has no member {', '.join(missing)}. Is it the right archive?")
    return [taken[name] for name in wanted]


def safe_member(name: str) -> bool:
    """Whether a member's name stays below the folder that it is taken out to."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name and "\0" not in name


def _remove(taken: dict[str, Path]) -> None:
    for path in taken.values():
        path.unlink(missing_ok=True)


def _regular_files(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Each regular file as its name, without a leading ``./``, and its open content."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                _check(archive, entry.filename)
                if not entry.is_dir():
                    with zipped.open(entry) as stream:
                        yield str(PurePosixPath(entry.filename)), stream
        return
    # Read as a stream: a packed archive is unpacked once, from front to back.
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            _check(archive, member.name)
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield str(PurePosixPath(member.name)), content


def _check(archive: Path, name: str) -> None:
    if not safe_member(name):
        raise DownloadError(
            f"{archive}: holds a member {name!r}, which leads out of the folder that it is unpacked to. "
            "It is refused as a whole."
        )
