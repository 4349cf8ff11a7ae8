"""Input files that must not change while they are read."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import DataError
from nmt.io.hashing import digest_of
from nmt.text.lines import STDIN

State = tuple[int, ...] | None


@dataclass(frozen=True)
class InputFiles:
    """Input files, as they were before they were read."""

    files: Mapping[str, Path]
    """By their names in a record."""
    states: Mapping[str, State]

    @staticmethod
    def of(files: Mapping[str, Path]) -> InputFiles:
        """Note the present state of files."""
        return InputFiles(files, {name: state_of(path) for name, path in files.items()})

    def changed(self, checksums: Mapping[str, object]) -> list[str]:
        """The names of the files that have changed since.

        Args:
            checksums: the sha256 of files that can be read again. A file that still has it is unchanged.
        """
        return [
            name
            for name, path in self.files.items()
            if (before := self.states[name]) is not None
            and (now := state_of(path)) != before
            and not (now is not None and checksums.get(name) is not None and checksums[name] == digest_of(path))
        ]

    def error(self, changed: Sequence[str], consequence: str) -> DataError:
        """The error about files that changed."""
        files = ", ".join(str(self.files[name]) for name in changed)
        return DataError(f"{files}: changed while it was read. {consequence}")


def state_of(path: Path) -> State:
    """What changes when a file is written or replaced; None for a pipe, or a file that does not exist."""
    try:
        status = os.fstat(sys.stdin.fileno()) if str(path) == STDIN else path.stat()
    except (OSError, ValueError, AttributeError):  # standard input may be closed, or replaced by another object
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    # A program can set the time of modification, but not that of the last change.
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
