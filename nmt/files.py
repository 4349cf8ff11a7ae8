"""Files and folders that are written whole or not at all, and the one rule about what they may replace.

The rule: a path that exists is replaced only when it is a thing of that very kind that this program wrote, and, of a
folder, only when it holds nothing else. Each kind is declared where its things are written, as a :class:`Kind`.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nmt.errors import OutputError
from nmt.locking import exclusive, is_lock
from nmt.writing import (
    WriteError,
    flush_to_disk,
    open_to_write,
    temporary_path,
    temporary_paths,
    writing,
    written_as,
)

# What a folder most likely is, by a file in it: for messages alone.
_TELLING = (
    ("manifest.json", "a data set"),
    ("training.json", "a checkpoint"),
    ("model.safetensors", "a bundle"),
    ("metrics.jsonl", "a run"),
    ("checkpoints", "a run"),
)
_NAMED = 3
_IS_CURRENT = "is the current folder, or holds it"


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder that this program writes, and how one is told from everything else."""

    name: str
    """With its article: ``a data set``."""
    is_ours: Callable[[Path], bool]
    """Whether a file, or a folder, is of this kind and was written by this program."""
    is_folder: bool = False
    holds: tuple[str, ...] = ()
    """Patterns of the names of all files in such a folder, which has no folders. Empty where the folder may hold other
    things too, since they are left alone or brought over."""

    def foreign_entries(self, folder: Path) -> list[str]:
        """Names of what is in a folder and not part of such a thing."""
        return sorted(entry.name for entry in folder.iterdir() if self.holds and not self._is_part(entry))

    def _is_part(self, entry: Path) -> bool:
        is_file = stat.S_ISREG(entry.lstat().st_mode)
        return is_file and (is_lock(entry) or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in self.holds))


def check_replaceable(path: Path, kind: Kind, *, option: str | None = "--out", in_place: bool = False) -> None:
    """Apply the rule to a path that a thing of some kind is to be written to.

    Args:
        option: names the path on the command line, for the message; None where no option does.
        in_place: what stands there is added to rather than replaced.

    Raises:
        OutputError: something else stands there; or a folder is to be replaced that the current folder lies in.
    """
    problem = _obstacle(path, kind, in_place=in_place)
    if problem is None:
        return
    remedies = [f"name another {'folder' if kind.is_folder else 'file'} with {option}"] if option else []
    if problem != _IS_CURRENT:
        remedies.append("move away what is there")
    raise OutputError(f"{path}: {problem}. It is left as it is: {', or '.join(remedies)}.")


def _obstacle(path: Path, kind: Kind, *, in_place: bool) -> str | None:
    """Why a thing of some kind may not be written to a path; None where it may."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not kind.is_folder:
        if stat.S_ISDIR(mode):
            return f"is a folder, and {kind.name} is a file"
        if not stat.S_ISREG(mode):
            return "is no regular file"
        return None if kind.is_ours(path) else f"is a file, but not {kind.name} that nmt wrote"
    if not stat.S_ISDIR(mode):
        return f"is a file, and {kind.name} is a folder"
    if not in_place and _holds_current_folder(path):
        return _IS_CURRENT
    if all(is_lock(entry) for entry in path.iterdir()):
        return None
    if not kind.is_ours(path):
        return _described(path, kind)
    foreign = kind.foreign_entries(path)
    return f"is {kind.name}, but also holds {_listed(foreign)}" if foreign else None


def _holds_current_folder(folder: Path) -> bool:
    current = Path.cwd()
    return any(folder.samefile(above) for above in (current, *current.parents))


def _described(folder: Path, wanted: Kind) -> str:
    """What a folder is that is not of the wanted kind, as far as its entries tell."""
    what = next((what for name, what in _TELLING if (folder / name).exists()), None)
    if what == wanted.name:
        return f"looks like {what}, but is damaged or was not written by nmt"
    if what is not None:
        return f"is {what}, not {wanted.name}"
    return f"holds {_listed(sorted(entry.name for entry in folder.iterdir()))}, and is not {wanted.name} that nmt wrote"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


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
    _check_removable(kind)
    check_replaceable(folder, kind)
    named, folder = folder, Path(os.path.realpath(folder))
    hidden = folder.with_name(f"{folder.name}.nmt")
    temporary, outgoing = temporary_path(hidden), folder.with_name(f".{folder.name}.nmt.old")
    with (
        _naming_folder(named, folder, temporary),
        _locked(folder),
    ):
        _recover(folder, outgoing, kind)
        temporary.mkdir()
        try:
            yield temporary
            _finish(temporary)
            check_replaceable(folder, kind)  # again, after what may have been hours
            _take_place(folder, temporary, outgoing)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            _remove_outgoing(folder, outgoing, kind)


@contextmanager
def _naming_folder(named: Path, folder: Path, temporary: Path) -> Iterator[None]:
    """Name a folder, or the file in it, in errors of the system that come while the folder is written.

    Args:
        named: the folder as the user calls it.

    Libraries write into it, too: an error that names no file is taken for one of theirs.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except WriteError as error:
        if not error.path.is_relative_to(temporary):
            raise
        path = named / error.path.relative_to(temporary)
        raise error.changed(path=path, kept=_kept(folder, "folder")) from error
    except OSError as error:
        if error.errno is None:  # not of the system, but of a library that reads
            raise
        path = folder if error.filename is None else Path(os.fsdecode(error.filename))
        if path.is_relative_to(temporary):
            path = named / path.relative_to(temporary)
        elif path == folder or (path.parent == folder.parent and path.name.startswith(f".{folder.name}.nmt.")):
            path = named
        else:
            raise
        raise WriteError.of(error, path, kept=_kept(folder, "folder")) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(folder, why_not_made(folder.parent, error), code=error.errno) from error
    with exclusive(folder.with_name(f".{folder.name}.nmt.lock")):
        yield


def _take_place(folder: Path, temporary: Path, outgoing: Path) -> None:
    """Rename a finished folder, and let the earlier one make way: both, or neither."""
    try:
        if folder.exists():
            folder.rename(outgoing)
        temporary.rename(folder)
        flush_folder(folder.parent)
    except BaseException:
        if not temporary.exists():
            folder.rename(temporary)
        if outgoing.exists():
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


def remove_own(folder: Path, kind: Kind) -> bool:
    """Remove a folder that holds nothing but files of a kind, complete or not. All else, also a link, is left alone.

    Returns:
        Whether it is gone.

    Raises:
        ValueError: the kind does not say which files it holds.
    """
    _check_removable(kind)
    if folder.is_symlink() or folder.is_file():
        return False
    try:
        if kind.foreign_entries(folder):
            return False
        for entry in folder.iterdir():
            entry.unlink()
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def _check_removable(kind: Kind) -> None:
    """Refuse a kind whose folders may hold anything: all of it would pass for ours."""
    if not kind.holds:
        raise ValueError(f"{kind.name}: no folder of a kind that may hold other things is removed.")


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
