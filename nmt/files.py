"""Files and folders that are written whole or not at all. What they may replace, :mod:`nmt.ownership` says."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nmt.errors import OutputError
from nmt.locking import exclusive
from nmt.ownership import Kind, check_removable, check_replaceable, remove_own
from nmt.writing import (
    WriteError,
    flush_to_disk,
    open_to_write,
    temporary_path,
    temporary_paths,
    writing,
    written_as,
)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name only once it is complete and on disk. A link is followed.

    When the body raises, or the process dies, what stood under the name before still stands.

    Raises:
        WriteError: the system refused to write it.
    """
    named, path = path, Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(named, why_not_made(path.parent, error), code=error.errno) from error
    temporary = temporary_path(path)
    try:
        with written_as(named, temporary, lambda: _kept(path, "file")):
            with open_to_write(temporary, "xb", follow=False) as stream:
                yield stream
                flush_to_disk(stream, temporary)
            with writing(temporary):
                temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _kept(path: Path, what: str) -> str:
    """What there is of a file or folder that could not be replaced."""
    if os.path.lexists(path):
        return f"The earlier {what} is unchanged; the new one is lost."
    return f"No {what} was left behind."


@contextmanager
def restoring(*paths: Path) -> Iterator[None]:
    """Put several files back as they were when the body fails: for files that only belong together.

    When the process dies in the body, each of them is what the body had made of it.

    Raises:
        WriteError: the system refused to keep them; the body was not begun.
    """
    kept: dict[Path, Path | None] = {}
    try:
        for path in (Path(os.path.realpath(path)) for path in paths):
            kept[path] = _second_name(path) if path.is_file() else None
        yield
    except BaseException:
        for path, copy in kept.items():
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True) if copy is None else copy.replace(path)
        raise
    finally:
        for copy in filter(None, kept.values()):
            with contextlib.suppress(OSError):
                copy.unlink(missing_ok=True)


def _second_name(path: Path) -> Path:
    """A further name for a file, or a copy where the file system knows no links."""
    other = temporary_path(path)
    try:
        os.link(path, other)
    except OSError:
        with path.open("rb") as stream, open_to_write(other, "xb", follow=False) as copy:
            shutil.copyfileobj(stream, copy)
    return other


def why_not_made(folder: Path, error: OSError) -> str:
    """Why a folder could not be made: a file stands in its path, or what the system says."""
    file = file_in_path(folder)
    return f"{file} is a file" if file is not None else str(error.strerror)


def file_in_path(folder: Path) -> Path | None:
    """The file, if any, that stands where a folder or one above it is to be."""
    return next((path for path in (folder, *folder.parents) if path.is_file()), None)


def partial_name(path: Path) -> Path:
    """The name of a file that is not complete yet."""
    return path.with_name(path.name + ".partial")


@contextmanager
def completing(path: Path, *, keep: int = 0) -> Iterator[BinaryIO]:
    """Open a file that takes its name once it is complete; until then, and after an error, it is ``PATH.partial``.

    For work that took long: what there is of it is kept whatever happens.

    Args:
        keep: bytes of an earlier try, to append to.

    Raises:
        WriteError: the system refused to write it, or the partial file is a symbolic link.
    """
    partial = partial_name(path)

    def kept() -> str:
        has_some = partial.is_file() and partial.stat().st_size > 0
        return f"The part that was finished is kept in {partial}." if has_some else "No file was left behind."

    with written_as(path, partial, kept):
        with open_to_write(partial, "r+b" if keep else "wb", follow=False) as stream:
            stream.truncate(keep)
            stream.seek(keep)
            yield stream
            flush_to_disk(stream, partial)
        with writing(partial):
            partial.replace(path)


@contextmanager
def replacing_folder(folder: Path, kind: Kind) -> Iterator[Path]:
    """Fill a folder that takes its name only once it is complete and on disk. A link is followed.

    One process at a time writes a folder. One that dies between the two renames leaves the earlier folder as
    ``.NAME.nmt.old``, from where the next one puts it back; what else it leaves, the next one removes.

    Raises:
        OutputError: by the rule, what stands there may not be replaced.
        WriteError: the system refused to write the folder or a file in it.
        ValueError: the kind does not say which files it holds.
    """
    check_removable(kind)
    check_replaceable(folder, kind)
    named, folder = folder, Path(os.path.realpath(folder))
    hidden = folder.with_name(f"{folder.name}.nmt")
    temporary, outgoing = temporary_path(hidden), folder.with_name(f".{folder.name}.nmt.old")
    with (
        _naming_folder(named, folder, temporary),
        _locked(folder, named),
    ):
        _recover(folder, outgoing, kind)
        temporary.mkdir()
        try:
            yield temporary
            _finish(temporary)
            check_replaceable(folder, kind)  # again, after what may have been hours
            take_place(folder, temporary, outgoing)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            _remove_outgoing(folder, outgoing, kind)


@contextmanager
def _naming_folder(named: Path, folder: Path, temporary: Path) -> Iterator[None]:
    """Name a folder, or the file in it, in errors of the system that come while the folder is written.

    Libraries write into it, too: an error that names no file is taken for one of theirs.

    Args:
        named: the folder as the user calls it.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except WriteError as error:
        path = _as_named(error.path, named, folder, temporary)
        if path is None:
            raise
        raise error.changed(path=path, kept=_kept(folder, "folder")) from error
    except OSError as error:
        if error.errno is None:  # not of the system, but of a library that reads
            raise
        unnamed = folder if error.filename is None else Path(os.fsdecode(error.filename))
        path = _as_named(unnamed, named, folder, temporary)
        if path is None:
            raise
        raise WriteError.of(error, path, kept=_kept(folder, "folder")) from error


def _as_named(path: Path, named: Path, folder: Path, temporary: Path) -> Path | None:
    """What the user calls a path that is part of writing a folder; None for any other."""
    if path.is_relative_to(temporary):
        return named / path.relative_to(temporary)
    if path == folder or (path.parent == folder.parent and path.name.startswith(f".{folder.name}.nmt.")):
        return named
    return None


@contextmanager
def _locked(folder: Path, named: Path) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(named, why_not_made(folder.parent, error), code=error.errno) from error
    with exclusive(folder.with_name(f".{folder.name}.nmt.lock")):
        yield


def take_place(folder: Path, temporary: Path, outgoing: Path) -> None:
    """Rename a finished folder, and let the earlier one, if any, make way: both, or neither.

    Args:
        outgoing: where the earlier one then is.
    """
    try:
        if folder.exists():
            folder.rename(outgoing)
        temporary.rename(folder)
        flush_folder(folder.parent)  # before anything of the earlier one goes
    except BaseException:
        if not temporary.exists():
            folder.rename(temporary)
        if outgoing.exists() and not folder.exists():
            outgoing.rename(folder)
        raise


def _remove_outgoing(folder: Path, outgoing: Path, kind: Kind) -> None:
    """Remove the earlier folder, once another one stands in its place."""
    with contextlib.suppress(OSError):  # the next process removes what is left
        if folder.exists():
            remove_own(outgoing, kind)


def _recover(folder: Path, outgoing: Path, kind: Kind) -> None:
    """Clear up after a process that died. The lock is held, so none is at work."""
    for left in (
        *temporary_paths(folder.with_name(f"{folder.name}.nmt")),
        folder.with_name(f".{folder.name}.nmt.tmp"),  # of earlier versions
    ):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
    if outgoing.exists() and not folder.exists() and kind.is_ours(outgoing):
        outgoing.rename(folder)
    elif outgoing.exists() and not remove_own(outgoing, kind):  # half of it may be gone, so is_ours may be false
        raise OutputError(
            f"{outgoing}: is left from {kind.name} that was replaced, but also holds other things. Move it away."
        )
    check_replaceable(folder, kind)


def put_back(parent: Path) -> None:
    """Put back the folders of a folder that a process renamed before it died, without bringing their successors.

    To be called by a process that nobody else writes these folders beside.
    """
    for outgoing in parent.glob(".*.nmt.old"):
        folder = parent / outgoing.name.removeprefix(".").removesuffix(".nmt.old")
        if not folder.exists():
            outgoing.rename(folder)


def _finish(folder: Path) -> None:
    """Give files the mode that the umask allows (some libraries write them for their owner alone), and flush all."""
    mode = stat.S_IMODE(folder.stat().st_mode) & 0o666
    for path in folder.iterdir():
        path.chmod(mode)
        with writing(path):
            _flush(path)
    flush_folder(folder)


def free_name(path: Path) -> Path:
    """A path where nothing stands: this one, or the first free one of ``NAME-2`` and so on."""
    free, number = path, 1
    while free.exists() or free.is_symlink():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def flush_folder(folder: Path) -> None:
    """Bring the names in a folder to disk, where the file system can do that.

    What is renamed or removed afterwards, in this folder or another, is then so later on the disk, too.
    """
    try:
        _flush(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
