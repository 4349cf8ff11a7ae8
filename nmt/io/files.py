"""Files and folders that are written atomically. :mod:`nmt.io.ownership` decides what they may replace."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nmt.errors import OutputError
from nmt.io.locking import exclusive
from nmt.io.ownership import Kind, check_removable, check_replaceable, remove_own
from nmt.io.writing import (
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
    """Open a file that gets its name only once it is complete and flushed to disk. A link is followed.

    If the body raises or the process dies, an existing file of that name is unchanged.

    Raises:
        WriteError: the system refused to write the file.
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
                _keep_private(path, temporary)
                temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _keep_private(earlier: Path, new: Path) -> None:
    """Give a new file or folder the mode of the one that it replaces, if there is one."""
    if earlier.exists():
        new.chmod(stat.S_IMODE(earlier.stat().st_mode) & 0o777)


def _kept(path: Path, what: str) -> str:
    """What remains of a file or folder that could not be replaced, as a sentence."""
    if os.path.lexists(path):
        return f"The earlier {what} is unchanged; the new one is lost."
    return f"No {what} was left behind."


@contextmanager
def restoring(*paths: Path) -> Iterator[None]:
    """Restore several files if the body fails: for files that must match each other.

    If the process dies in the body, each file stays as the body left it.

    Raises:
        WriteError: the system refused to keep copies; the body was not run.
    """
    kept: dict[Path, Path | None] = {}
    try:
        for path in (Path(os.path.realpath(path)) for path in paths):
            kept[path] = temporary_path(path) if path.is_file() else None
            if (copy := kept[path]) is not None:
                linked_copy(path, copy)
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


def linked_copy(path: Path, copy: Path) -> None:
    """Give a file a further name by a hard link, or copy it if the file system has no hard links.

    Raises:
        WriteError: the system refused to write the copy.
    """
    try:
        os.link(path, copy)
    except OSError:
        with path.open("rb") as stream, open_to_write(copy, "xb", follow=False) as out:
            shutil.copyfileobj(stream, out)


def why_not_made(folder: Path, error: OSError) -> str:
    """Why a folder could not be made: a file is in its path, or the system's message."""
    file = file_in_path(folder)
    return f"{file} is a file" if file is not None else str(error.strerror)


def file_in_path(folder: Path) -> Path | None:
    """The file, if any, at the path of a folder or one of its parents."""
    return next((path for path in (folder, *folder.parents) if path.is_file()), None)


def record_name(path: Path) -> Path:
    """The name of the record of how a complete output was made."""
    return path.with_name(f".{path.name}.nmt.json")


def partial_name(path: Path) -> Path:
    """The name of a file while it is incomplete."""
    return path.with_name(path.name + ".partial")


@contextmanager
def completing(path: Path, *, keep: int = 0) -> Iterator[BinaryIO]:
    """Open a file that gets its name once it is complete; until then, and after an error, it is ``PATH.partial``.

    For results that took long: the finished part is always kept.

    Args:
        keep: append after this many bytes of an earlier attempt.

    Raises:
        WriteError: the system refused to write the file, or the partial file is a symbolic link.
    """
    partial = partial_name(path)

    def kept() -> str:
        has_some = partial.is_file() and partial.stat().st_size > 0
        return f"The finished part is kept in {partial}." if has_some else "No file was left behind."

    try:
        with written_as(path, partial, kept):
            with open_to_write(partial, "r+b" if keep else "wb", follow=False) as stream:
                stream.truncate(keep)
                stream.seek(keep)
                yield stream
                flush_to_disk(stream, partial)
            with writing(partial):
                partial.replace(path)
    except WriteError as error:
        if error.path == path:
            raise
        raise error.changed(kept=kept()) from error  # Another file, such as the record of this one.


@contextmanager
def replacing_folder(folder: Path, kind: Kind) -> Iterator[Path]:
    """Fill a folder that gets its name only once it is complete and flushed to disk. A link is followed.

    Only one process at a time writes a folder. A process that dies between the two renames leaves the earlier folder as
    ``.NAME.nmt.old``. The next process restores that folder and removes everything else that was left.

    Raises:
        OutputError: the existing file or folder may not be replaced.
        WriteError: the system refused to write the folder or a file in it.
        ValueError: the kind does not say which files it holds.
    """
    with replacing_folders([folder], kind) as [temporary]:
        yield temporary


@contextmanager
def replacing_folders(folders: Sequence[Path], kind: Kind) -> Iterator[list[Path]]:
    """Fill several folders, as :func:`replacing_folder` does. They are replaced together, once all are complete.

    If the body fails, or one of them cannot be replaced, all stay as they were. A process that dies between the renames
    leaves some of them replaced.
    """
    with locked_folders(folders, kind) as locked, replacing_locked(locked) as temporaries:
        yield temporaries


@contextmanager
def locked_folders(folders: Sequence[Path], kind: Kind) -> Iterator[list[LockedFolder]]:
    """Lock several folders that may be replaced; see :meth:`LockedFolder.lock`.

    Raises:
        OutputError: an existing file or folder may not be replaced.
    """
    for folder in folders:
        check_replaceable(folder, kind)
    with ExitStack() as stack:
        yield [stack.enter_context(LockedFolder.lock(folder, kind)) for folder in folders]


@contextmanager
def replacing_locked(folders: Sequence[LockedFolder]) -> Iterator[list[Path]]:
    """Fill temporary folders, which replace locked folders at the end of the body, all or none."""
    with ExitStack() as stack:
        temporaries = [stack.enter_context(each.filling()) for each in folders]
        yield temporaries
        for each, temporary in zip(folders, temporaries, strict=True):
            with _naming_folder(each.named, each.folder):  # A system error without a name is about this folder.
                _finish(temporary, each.folder)
            check_replaceable(each.named, each.kind)  # Check again: hours may have passed.
        _swap_all(folders, temporaries)


def restore_interrupted(folder: Path, kind: Kind) -> None:
    """Restore a folder, if a process died between the two renames that replace it."""
    if LockedFolder(folder, Path(os.path.realpath(folder)), kind).outgoing.exists():
        with LockedFolder.lock(folder, kind):
            pass


@dataclass(frozen=True)
class LockedFolder:
    """A folder that only this process writes, whether it exists or not."""

    named: Path
    """Its path as the user gave it."""
    folder: Path
    kind: Kind

    @classmethod
    @contextmanager
    def lock(cls, folder: Path, kind: Kind, *, wait: bool = True) -> Iterator[LockedFolder]:
        """Lock a folder, and restore it if a process died while it replaced the folder.

        In the body, errors of the system about the folder and its temporary files name the folder.

        Args:
            wait: wait for another process that writes the folder instead of raising an error.

        Raises:
            OutputError: another process writes the folder, or temporary files of its name are not ours.
            WriteError: the system refused to write.
        """
        check_removable(kind)
        locked = cls(folder, Path(os.path.realpath(folder)), kind)
        with _naming_folder(folder, locked.folder), _locked(locked.folder, folder, wait=wait):
            locked._recover()
            yield locked

    @contextmanager
    def replacing(self) -> Iterator[Path]:
        """Fill a temporary folder, which replaces this one at the end of the body.

        Raises:
            OutputError: the existing file or folder may not be replaced.
        """
        with replacing_locked([self]) as [temporary]:
            yield temporary

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """A temporary folder beside this one. It is removed at the end, as is the earlier folder if it was replaced."""
        check_replaceable(self.named, self.kind)
        try:
            with self.scratch() as temporary:
                yield temporary
        finally:
            with contextlib.suppress(OSError):  # The next process removes the rest.
                if self.folder.exists():
                    remove_own(self.outgoing, self.kind)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for temporary files, on the same disk. It is removed at the end."""
        temporary = temporary_path(self._hidden)
        temporary.mkdir()
        try:
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @property
    def outgoing(self) -> Path:
        """The name of the earlier folder while the new one takes its place."""
        return self.folder.with_name(f".{self.folder.name}.nmt.old")

    @property
    def _hidden(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.nmt")

    def _recover(self) -> None:
        """Clean up after a process that died. The lock is held, so no process is writing."""
        for abandoned in temporary_paths(self._hidden):
            if abandoned.is_dir() and not abandoned.is_symlink():
                shutil.rmtree(abandoned, ignore_errors=True)
        outgoing = self.outgoing
        if outgoing.exists() and not self.folder.exists() and self.kind.is_ours(outgoing):
            outgoing.rename(self.folder)
        elif outgoing.exists() and not remove_own(outgoing, self.kind):
            # It may be partly removed, so is_ours may be false.
            raise OutputError(
                f"{outgoing}: is the rest of {self.kind.name} that was replaced, but also holds other files. "
                "Move it away."
            )


def _swap_all(folders: Sequence[LockedFolder], temporaries: Sequence[Path]) -> None:
    """Give all finished folders their names, or none."""
    swapped: list[tuple[LockedFolder, Path]] = []
    try:
        for each, temporary in zip(folders, temporaries, strict=True):
            with _naming_folder(each.named, each.folder):
                swap_folders(each.folder, temporary, each.outgoing)
            swapped.append((each, temporary))
    except BaseException:
        for each, temporary in swapped:
            with contextlib.suppress(OSError):
                each.folder.rename(temporary)
                if each.outgoing.exists():
                    each.outgoing.rename(each.folder)
        raise


@contextmanager
def _naming_folder(named: Path, folder: Path) -> Iterator[None]:
    """Turn system errors while a folder is written into errors that name the folder, or the file in it.

    Libraries write files into the folder too. An error that names no file is taken for one of theirs.

    Args:
        named: the folder's path as the user gave it.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except WriteError as error:
        path = _as_named(error.path, named, folder)
        if path is None:
            raise
        raise error.changed(path=path, kept=_kept(folder, "folder")) from error
    except OSError as error:
        if error.errno is None:  # Not a system error, but one of a library that reads.
            raise
        unnamed = folder if error.filename is None else Path(os.fsdecode(error.filename))
        path = _as_named(unnamed, named, folder)
        if path is None:
            raise
        raise WriteError.of(error, path, kept=_kept(folder, "folder")) from error


def _as_named(path: Path, named: Path, folder: Path) -> Path | None:
    """The user's path for the folder, or for a temporary path that is used while it is written; None for others."""
    if path == folder:
        return named
    if folder.parent not in path.parents:
        return None
    temporary, *within = path.relative_to(folder.parent).parts
    return named.joinpath(*within) if temporary.startswith(f".{folder.name}.nmt.") else None


@contextmanager
def _locked(folder: Path, named: Path, *, wait: bool) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(named, why_not_made(folder.parent, error), code=error.errno) from error
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(folder.with_name(f".{folder.name}.nmt.lock"), wait=wait))
        except BlockingIOError:
            raise OutputError(f"{named}: is being written by another process. Wait until it is done.") from None
        yield


def swap_folders(folder: Path, temporary: Path, outgoing: Path) -> None:
    """Rename the earlier folder, if any, to ``outgoing``, and a finished folder to its name: both or neither."""
    try:
        if folder.exists():
            folder.rename(outgoing)
        temporary.rename(folder)
        flush_folder(folder.parent)  # Before any file of the earlier folder is removed.
    except BaseException:
        if not temporary.exists():
            folder.rename(temporary)
        if outgoing.exists() and not folder.exists():
            outgoing.rename(folder)
        raise


def put_back(parent: Path) -> None:
    """Restore the folders in ``parent`` that a process renamed before it died, without putting new ones in their place.

    Call it only if no other process is writing these folders.
    """
    for outgoing in parent.glob(".*.nmt.old"):
        folder = parent / outgoing.name.removeprefix(".").removesuffix(".nmt.old")
        if not folder.exists():
            outgoing.rename(folder)


def _finish(folder: Path, earlier: Path) -> None:
    """Give all files the mode that the umask allows (some libraries write private files), and flush them to disk.

    Files that the user made private stay private, and so does the folder.
    """
    mode = stat.S_IMODE(folder.stat().st_mode) & 0o666
    for path in folder.iterdir():
        if path.is_dir():
            _finish(path, earlier / path.name)
            continue
        if not (earlier / path.name).exists():
            path.chmod(mode)
        _keep_private(earlier / path.name, path)
        with writing(path):
            _flush(path)
    _keep_private(earlier, folder)
    flush_folder(folder)


def free_name(path: Path) -> Path:
    """A path that does not exist: this one, or the first free one of ``NAME-2``, ``NAME-3`` and so on."""
    free, number = path, 1
    while free.exists() or free.is_symlink():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, if the file system supports it.

    Later renames and removals, in this folder or another, then also reach the disk later.
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
