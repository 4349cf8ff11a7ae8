"""Power cuts, replayed: what may be on a disk when the power fails while a command writes.

A recorder notes every change of names below a folder (new, renamed, removed) and every fsync with the content that it
brought to disk. From the record come the states that a cut may leave:

- a file holds what its last fsync brought to disk; one that was never flushed is empty, or holds zeros;
- a folder holds the names of its last fsync, or those of any moment since;
- folders are independent of each other, except that a rename from one to another is not half done.

That is what POSIX allows. A file system with a journal keeps the order of all changes; those states are among them.
"""

from __future__ import annotations

import os
import random
import stat
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

Entry = tuple[str, int | str]
"""``("file", inode)``, ``("folder", inode)`` or ``("link", target)``."""
Names = dict[int, dict[str, Entry]]
"""By the inode of a folder, what it holds."""
Versions = Mapping[int, dict[str, Entry]]
ZEROS = bytes(512)
_CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate"})


@dataclass
class Record:
    """What happened below a folder, in order."""

    root: int
    """The folder's inode."""
    events: list[tuple[str, int, object]] = field(default_factory=list)
    """``("names", 0, Names)``, ``("flushed file", inode, bytes)`` or ``("flushed folder", inode, entries)``."""
    before: dict[int, bytes] = field(default_factory=dict)
    """What files held at the start, all of it on disk."""


class _Recorder:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._open: dict[int, int] = {}
        self._lock = threading.RLock()
        self._names: Names = {}
        self.is_busy = threading.local()
        self.record = Record(root.stat().st_ino)
        self.look()
        self.record.before = {inode: self._content(inode) for inode in self._open}

    def look(self) -> None:
        """Note the names as they are, if they have changed."""
        with self._lock, self._alone():
            names: Names = {}
            self._scan(self._root, names)
            if names != self._names:
                self._names = names
                self.record.events.append(("names", 0, names))

    def flushed(self, descriptor: int) -> None:
        """Note what an fsync brings to disk."""
        self.look()
        with self._lock, self._alone():
            found = os.fstat(descriptor)
            if found.st_ino in self._names:
                self.record.events.append(("flushed folder", found.st_ino, self._names[found.st_ino]))
            elif found.st_ino in self._open:
                self.record.events.append(("flushed file", found.st_ino, self._content(found.st_ino)))

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in self._open.values():
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.is_busy.now = True
        try:
            yield
        finally:
            self.is_busy.now = False

    def _scan(self, folder: Path, names: Names) -> None:
        held: dict[str, Entry] = {}
        inode = folder.stat().st_ino
        self._hold(folder, inode, os.O_DIRECTORY, folders=True)
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                held[entry.name] = ("link", str(Path(entry.path).readlink()))
            elif stat.S_ISDIR(mode):
                held[entry.name] = ("folder", entry.inode())
                self._scan(Path(entry.path), names)
            elif stat.S_ISREG(mode):
                held[entry.name] = ("file", entry.inode())
                self._hold(Path(entry.path), entry.inode(), 0)
        names[inode] = held

    def _hold(self, path: Path, inode: int, flags: int, *, folders: bool = False) -> None:
        """Keep a file open, so that no other gets its inode and its content can be read to the end."""
        key = -inode if folders else inode
        if key not in self._open:
            self._open[key] = os.open(path, os.O_RDONLY | flags)

    def _content(self, inode: int) -> bytes:
        if inode < 0:
            return b""
        return os.pread(self._open[inode], os.fstat(self._open[inode]).st_size, 0)


_recorder: _Recorder | None = None


def _hook(event: str, arguments: object) -> None:
    recorder = _recorder
    if recorder is not None and event in _CHANGES and not getattr(recorder.is_busy, "now", False):
        recorder.look()


_hooked: list[bool] = []


@contextmanager
def recorded(root: Path) -> Iterator[Record]:
    """Record what this process does below a folder while the body runs. What child processes flush is not seen."""
    global _recorder
    if not _hooked:
        sys.addaudithook(_hook)  # there is no way to remove one
        _hooked.append(True)
    recorder = _Recorder(root)
    flush = os.fsync

    def fsync(descriptor: int) -> None:
        recorder.flushed(descriptor if isinstance(descriptor, int) else descriptor.fileno())
        flush(descriptor)

    with mock.patch.object(os, "fsync", fsync):
        _recorder = recorder
        try:
            yield recorder.record
        finally:
            recorder.look()
            _recorder = None
            recorder.close()


def power_cuts(record: Record, into: Path, *, states: int = 150, seed: int = 0) -> Iterator[Path]:
    """Serve what may be on the disk after a cut at any moment, each as a folder of its own; the last of them first.

    Args:
        states: the number of states, drawn at random where there are more.
    """
    found = list(_states(record, random.Random(seed)))
    draw = random.Random(seed)
    if len(found) > states:
        found = [found[-1], *draw.sample(found, states)]
    for number, (versions, contents) in enumerate(reversed(found)):
        folder = into / f"{number:04}"
        _make(folder, record.root, versions, contents)
        yield folder


def _states(record: Record, draw: random.Random) -> Iterator[tuple[Versions, Mapping[int, bytes]]]:
    seen = set()
    history: dict[int, list[dict[str, Entry]]] = {}
    """Of each folder, the names that it may have: from those that were flushed last."""
    moments: list[Names] = []
    contents = dict(record.before)
    known: set[Entry] = set()
    for kind, inode, what in record.events:
        if kind == "names":
            assert isinstance(what, dict)
            moments.append(what)
            for folder, held in what.items():
                # At the start, all is on disk. A folder that is new has nothing in it until it was flushed.
                versions = history.setdefault(folder, [held] if len(moments) == 1 else [{}])
                if versions[-1] != held:
                    versions.append(held)
            if len(moments) == 1:
                known = {entry for held in what.values() for entry in held.values() if entry[0] != "link"}
        elif kind == "flushed folder":
            assert isinstance(what, dict)
            history[inode] = [what]
        else:
            assert isinstance(what, bytes)
            contents[inode] = what
        present = {entry for held in moments[-1].values() for entry in held.values()}
        choices = [
            {folder: versions[0] for folder, versions in history.items()},
            {folder: versions[-1] for folder, versions in history.items()},
            *(_at(moment, history) for moment in moments[-6:]),
            *({folder: draw.choice(versions) for folder, versions in history.items()} for _ in range(4)),
        ]
        for chosen, unflushed in ((chosen, unflushed) for chosen in choices for unflushed in (b"", ZEROS)):
            reached = list(_reached(record.root, chosen))
            is_possible = len(set(reached)) == len(reached) and known & present <= set(reached)
            key = repr((sorted(_listing(record.root, chosen)), sorted(_flushed(reached, contents)), unflushed))
            if is_possible and key not in seen:
                seen.add(key)
                missing = {int(inode): unflushed for kind, inode in reached if kind == "file" and inode not in contents}
                yield chosen, contents | missing


def _at(moment: Names, history: Mapping[int, list[dict[str, Entry]]]) -> Versions:
    """The names of a moment, or those that were flushed later."""
    return {
        folder: moment[folder] if moment.get(folder) in versions else versions[0]
        for folder, versions in history.items()
    }


def _reached(folder: int, names: Versions) -> Iterator[Entry]:
    """All entries below a folder but links, which lie in a folder and nowhere else."""
    for kind, inode in names.get(folder, {}).values():
        if kind != "link":
            yield kind, inode
        if kind == "folder":
            yield from _reached(int(inode), names)


def _listing(folder: int, names: Versions, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    for name, entry in names.get(folder, {}).items():
        yield f"{prefix}/{name}", entry
        if entry[0] == "folder":
            yield from _listing(int(entry[1]), names, f"{prefix}/{name}")


def _flushed(entries: list[Entry], contents: Mapping[int, bytes]) -> Iterator[tuple[int, int]]:
    for kind, inode in entries:
        if kind == "file" and inode in contents:
            yield int(inode), hash(contents[int(inode)])


def _make(path: Path, folder: int, names: Versions, contents: Mapping[int, bytes]) -> None:
    path.mkdir(parents=True)
    for name, (kind, inode) in names.get(folder, {}).items():
        if kind == "link":
            (path / name).symlink_to(str(inode))
        elif kind == "folder":
            _make(path / name, int(inode), names, contents)
        else:
            (path / name).write_bytes(contents[int(inode)])
