"""The one rule about what may be replaced or removed.

An existing path is replaced only if this program wrote it, and it is of the same kind as its replacement. A folder must
also hold nothing else. Each :class:`Kind` is declared in the module that writes it.
"""

from __future__ import annotations

import errno
import fnmatch
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import OutputError
from nmt.io.locking import is_lock
from nmt.text.printable import listed

_IS_CURRENT = "is the current folder, or a parent of it"
_ALSO_HOLDS = "but also holds"


@dataclass(frozen=True)
class Kind:
    """A kind of file or folder that this program writes, and how to recognise it."""

    name: str
    """The name with its article: ``a data set``."""
    is_ours: Callable[[Path], bool]
    """Whether a file or folder is of this kind and was written by this program."""
    is_folder: bool = False
    holds: tuple[str, ...] = ()
    """Patterns for the names of all files in such a folder. Empty if the folder may hold other files too, which are
    left alone."""
    folders: tuple[tuple[str, Kind], ...] = ()
    """Patterns for the names of its subfolders, each with its kind."""

    def foreign_entries(self, folder: Path) -> list[str]:
        """Names of entries of a folder that do not belong to this kind: ``notes.txt``, ``shards/notes.txt``."""
        if not self.holds:
            return []
        return sorted(name for entry in folder.iterdir() for name in self._foreign(entry))

    def subfolder(self, name: str) -> Kind | None:
        """The kind of a subfolder; None for a folder that such a folder does not hold."""
        return next((kind for pattern, kind in self.folders if fnmatch.fnmatchcase(name, pattern)), None)

    def _foreign(self, entry: Path) -> list[str]:
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode) and (kind := self.subfolder(entry.name)) is not None:
            return [f"{entry.name}/{name}" for name in kind.foreign_entries(entry)]
        if not stat.S_ISREG(mode):
            return [entry.name]
        is_part = is_lock(entry) or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in self.holds)
        return [] if is_part else [entry.name]


def check_replaceable(path: Path, kind: Kind, *, option: str | None = "--out", in_place: bool = False) -> None:
    """Check that a file or folder of some kind may be written to a path.

    Args:
        option: the command-line option for the path, for the message; None if there is none.
        in_place: an existing folder is added to, not replaced: it may hold other files too.

    Raises:
        OutputError: the path holds something else, or a folder to be replaced contains the current folder.
    """
    problem = _obstacle(path, kind, in_place=in_place)
    if problem is None:
        return
    remedies = [f"name another {'folder' if kind.is_folder else 'file'} with {option}"] if option else []
    if problem != _IS_CURRENT:
        remedies.append("move these files away" if _ALSO_HOLDS in problem else "move it away")
    raise OutputError(f"{path}: {problem}. It is left as it is: {', or '.join(remedies)}.")


def remove_own(folder: Path, kind: Kind) -> bool:
    """Remove a folder that holds only files of a kind, complete or not. Anything else, such as a link, is left alone.

    Returns:
        Whether the folder is gone.

    Raises:
        ValueError: the kind does not say which files it holds.
    """
    check_removable(kind)
    if folder.is_symlink() or folder.is_file():
        return False
    try:
        if kind.foreign_entries(folder):
            return False
        for entry in folder.iterdir():
            if (subfolder := kind.subfolder(entry.name)) is not None and entry.is_dir():
                remove_own(entry, subfolder)
            else:
                entry.unlink()
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        return False
    return True


def check_removable(kind: Kind) -> None:
    """Refuse a kind whose folders may hold any files: the user's files would be removed with them."""
    if not kind.holds:
        raise ValueError(f"{kind.name}: cannot be removed, since it may hold other files.")


def _obstacle(path: Path, kind: Kind, *, in_place: bool) -> str | None:
    """Why a file or folder of some kind may not be written to a path; None if it may."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not kind.is_folder:
        if stat.S_ISDIR(mode):
            return f"is a folder, but {kind.name} is a file"
        if not stat.S_ISREG(mode):
            return "is not a regular file"
        return None if kind.is_ours(path) else f"is a file, but not {kind.name} that nmt wrote"
    if not stat.S_ISDIR(mode):
        return f"is a file, but {kind.name} is a folder"
    if not in_place and _holds_current_folder(path):
        return _IS_CURRENT
    if all(is_lock(entry) for entry in path.iterdir()):
        return None
    if not kind.is_ours(path):
        entries = listed(sorted(entry.name for entry in path.iterdir()))
        return f"holds {entries}, and is not {kind.name} that nmt wrote, or is damaged"
    foreign = [] if in_place else kind.foreign_entries(path)
    return f"is {kind.name}, {_ALSO_HOLDS} {listed(foreign)}" if foreign else None


def _holds_current_folder(folder: Path) -> bool:
    current = Path.cwd()
    return any(folder.samefile(above) for above in (current, *current.parents))
