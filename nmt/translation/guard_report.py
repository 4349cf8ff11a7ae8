"""The guard's findings, line by line, as a file."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nmt.errors import DataError
from nmt.io.locking import exclusive, holder
from nmt.io.writing import flush_to_disk, open_to_write
from nmt.translation.results import Translation

FIELDS = ("line", "problems", "repaired", "source", "translation")
_BEGINNING = re.compile(rb'\{"line": [0-9]+, "problems": \[')
"""Of a report with findings, even if it was cut short."""
_LONGEST_BEGINNING = 64


class GuardReport:
    """A file of JSON objects, one per translation that looked wrong, in the order of the lines."""

    def __init__(self, path: Path | None) -> None:
        """Prepare to write. No file is opened before :meth:`claimed`.

        Args:
            path: the file; None writes no report.
        """
        self.path = path
        """The file. :meth:`claimed` may choose another one."""
        self._stream: BinaryIO | None = None

    @contextlib.contextmanager
    def claimed(self, *, fresh: bool = False) -> Iterator[GuardReport]:
        """Check the path before a model is loaded, and lock it against other processes.

        Args:
            fresh: keep an earlier report, and write to the next free name.

        Raises:
            DataError: the path cannot be written, it exists and is not a guard report, or another process is writing
                it.
        """
        if self.path is None:
            yield self
            return
        if not self.path.parent.is_dir():
            raise DataError(f"{self.path.parent}: there is no such folder to write --guard-report to.")
        self._refuse_foreign()
        with contextlib.ExitStack() as stack:
            if self.path.exists() and not self.path.is_file():
                pass  # devices and pipes need no lock
            elif fresh:
                self.path = next(path for path in _beside(self.path) if _is_free(path) and _is_locked(path, stack))
            elif not _is_locked(self.path, stack):
                raise DataError(
                    f"{self.path}: another process is writing it ({holder(_lock(self.path))}). Wait until it ends, or "
                    "name another file for --guard-report."
                )
            yield self

    def begin(self, kept: int | None) -> None:
        """Open the file, and keep what an interrupted translation reported.

        Args:
            kept: the size of what it reported, by the journal of the output; later findings are dropped. None if it
                wrote no report.

        Raises:
            DataError: the file exists and is not a guard report, or does not hold as much.
            WriteError: the file cannot be written.
        """
        if self.path is None:
            return
        self._refuse_foreign()
        if kept is None or (kept and not self._holds(kept)):
            raise DataError(
                f"{self.path}: lacks what the interrupted translation found: it wrote another report or none, or this "
                "one was changed. Give the same --guard-report, leave it out, or add --fresh."
            )
        # Truncated in place, so that kept records stay on disk even if the process is killed.
        self._stream = open_to_write(self.path, "r+b" if kept else "wb")
        if kept:
            self._stream.truncate(kept)
            self._stream.seek(kept)

    @property
    def size(self) -> int | None:
        """The bytes that are written; 0 for a device or a pipe, and None without a report."""
        if self.path is None or self._stream is None:
            return None
        return self._stream.tell() if self.path.is_file() else 0

    def add(self, number: int, translation: Translation) -> None:
        """Report a line if its translation looked wrong.

        Args:
            number: the line's number, from 1.
        """
        if self._stream is None or translation.guard is None:
            return
        found = translation.guard
        values = (number, found.problems, found.repaired, translation.source, translation.text)
        record = json.dumps(dict(zip(FIELDS, values, strict=True)), ensure_ascii=False)
        self._stream.write(record.encode("utf-8", errors="replace") + b"\n")

    def flush(self) -> None:
        """Flush buffered records; those in a file to disk, before the translation is noted as done."""
        if self._stream is None or self.path is None:
            return
        if self.path.is_file():
            flush_to_disk(self._stream, self.path)
        else:
            self._stream.flush()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    def _refuse_foreign(self) -> None:
        """Refuse a folder, and a file that is not a report."""
        assert self.path is not None
        if self.path.is_dir():
            raise DataError(f"{self.path}: is a folder; name a file for --guard-report.")
        if not self.path.is_file():  # absent, or a device or pipe
            return
        with self.path.open("rb") as stream:
            beginning = stream.read(_LONGEST_BEGINNING)
        if beginning and not _BEGINNING.match(beginning):
            raise DataError(f"{self.path}: exists, and is not a guard report. Name another file for --guard-report.")

    def _holds(self, size: int) -> bool:
        """Whether the file has a finding that ends at this size."""
        assert self.path is not None
        if not self.path.is_file():
            return False
        with self.path.open("rb") as stream:
            stream.seek(size - 1)
            return stream.read(1) == b"\n"


def _beside(path: Path) -> Iterator[Path]:
    yield path
    for number in itertools.count(2):
        yield path.with_stem(f"{path.stem}-{number}")


def _is_free(path: Path) -> bool:
    return not (path.exists() or path.is_symlink())


def _lock(path: Path) -> Path:
    path = path.resolve()  # a link and its target share one lock
    return path.with_name(f".{path.name}.lock")


def _is_locked(path: Path, stack: contextlib.ExitStack) -> bool:
    """Lock a report until the stack closes. Returns False if another process holds the lock."""
    try:
        stack.enter_context(exclusive(_lock(path), wait=False))
    except BlockingIOError:
        return False
    except OSError as error:
        raise DataError(f"{path.parent}: cannot be written to ({error.strerror}).") from None
    return True
