"""Files and folders that are written atomically. :mod:`nmt.io.ownership` decides what they may replace."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nmt.errors import OutputError
from nmt.io.locking import exclusive
from nmt.io.ownership import Kind, check_removable, check_replaceable, remove_own
from nmt.io.writing import (
    WriteError,
    final_path,
    flush_to_disk,
    open_to_write,
    temporary_path,
    temporary_paths,
    writing,
)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name only once it is complete and flushed to disk. A link is followed.

    If the body raises or the process dies, an existing file of that name is unchanged.

    Raises:
        WriteError: the system refused to write the file.
    """
    path = _followed(path)
    _make_parent(path)
    temporary = temporary_path(path)
    try:
        with open_to_write(temporary, "xb", follow=False) as stream:
            yield stream
            flush_to_disk(stream, temporary)
        with writing(temporary):
            _keep_private(path, temporary)
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _followed(path: Path) -> Path:
    """The path that is replaced: where a link leads, else the path itself, as the user gave it."""
    has_name = path.name not in ("", "..")
    is_link = os.path.islink(path)  # noqa: PTH114 - Path.is_symlink raises an error for a name that is too long
    return path if has_name and not is_link else Path(os.path.realpath(path))


@contextmanager
def parents_made(path: Path) -> Iterator[None]:
    """Make the folders above a path, and at the end remove those that are still empty.

    Raises:
        WriteError: the system refused to make them.
    """
    missing = [each for each in path.parents if not os.path.exists(each)]  # noqa: PTH110 - raises no error
    _make_parent(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(path, why_not_made(path.parent, error), code=error.errno) from error


def _keep_private(earlier: Path, new: Path) -> None:
    """Give a new file or folder the mode of the one that it replaces, if there is one."""
    if earlier.exists():
        new.chmod(stat.S_IMODE(earlier.stat().st_mode) & 0o777)


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
            copy = temporary_path(path) if path.is_file() else None
            if copy is not None:
                linked_copy(path, copy)
            kept[path] = copy  # Only now: an incomplete copy must not replace the file.
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
        WriteError: the system refused to write the copy; an incomplete copy was removed.
    """
    try:
        os.link(path, copy)
    except OSError:
        with path.open("rb") as stream:
            out = open_to_write(copy, "xb", follow=False)  # before the ``try``: a file that exists is not ours
            try:
                with out:
                    shutil.copyfileobj(stream, out)
            except BaseException:
                with contextlib.suppress(OSError):
                    copy.unlink()
                raise


def why_not_made(folder: Path, error: OSError) -> str:
    """Why a folder could not be made: a file is in its path, or the system's message."""
    file = file_in_path(folder)
    return f"{file} is a file" if file is not None else str(error.strerror)


def file_in_path(folder: Path) -> Path | None:
    """The file, if any, at the path of a folder or one of its parents."""
    isfile = os.path.isfile  # Path.is_file raises an error for a name that is too long.
    return next((path for path in (folder, *folder.parents) if isfile(path)), None)


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
    with open_to_write(partial, "r+b" if keep else "wb", follow=False) as stream:
        stream.truncate(keep)
        stream.seek(keep)
        yield stream
        flush_to_disk(stream, partial)
    with writing(path):
        partial.replace(path)


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
    with locked_folders([folder], kind) as locked, replacing_locked(locked) as [temporary]:
        yield temporary


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
    """Fill temporary folders, which replace locked folders at the end of the body, once all are complete.

    If the body fails, or one folder cannot be replaced, all stay as they were. A process that dies between the renames
    leaves some of them replaced.

    Raises:
        OutputError: an existing file or folder may not be replaced.
    """
    with ExitStack() as stack:
        temporaries = [stack.enter_context(each.filling()) for each in folders]
        yield temporaries
        for each, temporary in zip(folders, temporaries, strict=True):
            with each.naming():
                _finish(temporary, each.path)
            check_replaceable(each.path, each.kind)  # Check again: hours may have passed.
        with ExitStack() as undo:
            for each, temporary in zip(folders, temporaries, strict=True):
                undo.callback(each.put_back, temporary)
                with each.naming():
                    each.put(temporary)
            undo.pop_all()


@dataclass(frozen=True)
class LockedFolder:
    """A folder that only this process writes, whether it exists or not."""

    path: Path
    kind: Kind

    @classmethod
    @contextmanager
    def lock(cls, folder: Path, kind: Kind, *, wait: bool = True) -> Iterator[LockedFolder]:
        """Lock a folder, and restore it if a process died while it replaced the folder.

        In the body, errors of the system about the folder and its temporary files name the folder. If the body makes
        no folder, the folders above it that were made for the lock are removed.

        Args:
            wait: wait for another process that writes the folder instead of raising an error.

        Raises:
            OutputError: another process writes the folder, or temporary files of its name are not ours.
            WriteError: the system refused to write.
        """
        check_removable(kind)
        locked = cls(_followed(folder), kind)
        with parents_made(locked.path), locked.naming(), ExitStack() as stack:
            try:
                stack.enter_context(exclusive(locked._hidden("lock"), wait=wait))
            except BlockingIOError:
                raise OutputError(f"{folder}: is being written by another process. Wait until it is done.") from None
            locked._recover()
            yield locked

    @contextmanager
    def filling(self) -> Iterator[Path]:
        """A temporary folder beside this one. It is removed at the end, as is the earlier folder if it was replaced."""
        check_replaceable(self.path, self.kind)
        try:
            with _temporary_folder(temporary_path(self.path)) as temporary:
                yield temporary
        finally:
            with contextlib.suppress(OSError):  # The next process removes the rest.
                if self.path.exists():
                    remove_own(self._hidden("old"), self.kind)

    def scratch(self) -> AbstractContextManager[Path]:
        """A folder for temporary files, on the same disk. It is removed at the end."""
        return _temporary_folder(temporary_path(self.path, "scratch"))

    def put(self, temporary: Path) -> None:
        """Rename the earlier folder, if any, and give a finished folder its name."""
        if self.path.exists():
            self.path.rename(self._hidden("old"))
        temporary.rename(self.path)
        flush_folder(self.path.parent)  # Before any file of the earlier folder is removed.

    def put_back(self, temporary: Path) -> None:
        """Undo :meth:`put`, however far it came."""
        outgoing = self._hidden("old")
        with contextlib.suppress(OSError):
            if not temporary.exists():
                self.path.rename(temporary)
            if outgoing.exists() and not self.path.exists():
                outgoing.rename(self.path)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Turn system errors in the body into errors that name the folder, or the file in it.

        Libraries write files into the folder too. An error that names no file is taken for one of theirs.
        """
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            path = self.path if error.filename is None else Path(os.fsdecode(error.filename))
            if error.errno is None or not self._is_written(path):  # of a library that reads, or another file
                raise
            raise WriteError.of(error, path) from error

    def _is_written(self, path: Path) -> bool:
        """Whether a path is that of this folder, or stands for it or a file in it until it is complete."""
        folder, named, final = (each.resolve() for each in (self.path, path, final_path(path)))
        return named == folder or (named != final and final.is_relative_to(folder))

    def _hidden(self, what: str) -> Path:
        return self.path.with_name(f".{self.path.name}.nmt.{what}")

    def _recover(self) -> None:
        """Clean up after a process that died. The lock is held, so no process is writing."""
        for abandoned in temporary_paths(self.path):
            if abandoned.is_dir() and not abandoned.is_symlink():
                shutil.rmtree(abandoned, ignore_errors=True)
        outgoing = self._hidden("old")
        if outgoing.exists() and not self.path.exists() and self.kind.is_ours(outgoing):
            outgoing.rename(self.path)
        elif outgoing.exists() and not remove_own(outgoing, self.kind):
            # It may be partly removed, so is_ours may be false.
            raise OutputError(
                f"{outgoing}: is the rest of {self.kind.name} that was replaced, but also holds other files. "
                "Move it away."
            )


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


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
