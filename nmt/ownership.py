"""The one rule about what may be replaced or removed.

A path that exists is replaced only when it is a thing of that very kind that this program wrote, and, of a folder, only
when it holds nothing else. Each kind is declared where its things are written, as a :class:`Kind`.
"""

from __future__ import annotations

import errno
import fnmatch
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import OutputError
from nmt.locking import is_lock

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


def remove_own(folder: Path, kind: Kind) -> bool:
    """Remove a folder that holds nothing but files of a kind, complete or not. All else, also a link, is left alone.

    Returns:
        Whether it is gone.

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
    """Refuse a kind whose folders may hold anything: all of it would pass for ours."""
    if not kind.holds:
        raise ValueError(f"{kind.name}: no folder of a kind that may hold other things is removed.")


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
