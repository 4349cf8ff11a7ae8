"""What the guard found, line by line, in a file of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nmt.config.documents import parse_json
from nmt.errors import DataError
from nmt.locking import exclusive, holder
from nmt.translation.results import Translation
from nmt.writing import open_to_write

FIELDS = ("line", "problems", "repaired", "source", "translation")
# The beginning of a first record that a crash or a full disk cut short; a whole object ends with a brace.
_CUT_SHORT = re.compile(rb'\{"line": [0-9]+, "problems": \[.*[^}]', re.DOTALL)


class GuardReport:
    """A file of JSON objects, one per translation that looked wrong, in the order of the lines."""

    def __init__(self, path: Path | None) -> None:
        """Make ready to write; nothing is touched before :meth:`claimed`.

        Args:
            path: None for no report.
        """
        self.path = path
        """The file; another one once :meth:`claimed` has chosen it."""
        self._stream: IO[bytes] | None = None

    @contextlib.contextmanager
    def claimed(self, *, fresh: bool = False) -> Iterator[GuardReport]:
        """Find mistakes before a model is loaded, and keep other processes from the file meanwhile.

        Args:
            fresh: leave an earlier report as it is, and write the next free file beside it.

        Raises:
            DataError: the path cannot be written, something else than a guard report stands there, or another process
                is writing it.
        """
        if self.path is None:
            yield self
            return
        if not self.path.parent.is_dir():
            raise DataError(f"{self.path.parent}: there is no such folder to write --guard-report to.")
        self._earlier()
        with contextlib.ExitStack() as stack:
            if self.path.exists() and not self.path.is_file():
                pass  # devices and pipes take from anyone
            elif fresh:
                self.path = next(path for path in _beside(self.path) if _is_free(path) and _is_locked(path, stack))
            elif not _is_locked(self.path, stack):
                raise DataError(
                    f"{self.path}: another process is writing it ({holder(_lock(self.path))}). Wait until it ends, or "
                    "name another file for --guard-report."
                )
            yield self

    def begin(self, done: int) -> None:
        """Open the file, behind what an interrupted translation reported.

        Args:
            done: lines that were translated before; what was reported of later ones is dropped.

        Raises:
            DataError: something stands there that is no guard report.
            WriteError: it cannot be written.
        """
        if self.path is None:
            return
        kept = sum(len(line) for _, line in itertools.takewhile(lambda found: found[0] <= done, self._earlier()))
        # What is kept is never away from the disk: the process may be killed at any moment.
        self._stream = open_to_write(self.path, "r+b" if kept else "wb")
        if kept:
            self._stream.truncate(kept)
            self._stream.seek(kept)

    def add(self, number: int, translation: Translation) -> None:
        """Report a line if its translation looked wrong.

        Args:
            number: of the line, from 1.
        """
        if self._stream is None or translation.guard is None:
            return
        found = translation.guard
        values = (number, found.problems, found.repaired, translation.source, translation.text)
        record = json.dumps(dict(zip(FIELDS, values, strict=True)), ensure_ascii=False)
        self._stream.write(record.encode("utf-8", errors="replace") + b"\n")

    def flush(self) -> None:
        """Hand what was added to the system."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Complete the file."""
        if self._stream is not None:
            self._stream.close()

    def _earlier(self) -> list[tuple[int, bytes]]:
        """The lines of a report that stands there, by the numbers of the lines that they are about."""
        assert self.path is not None
        if self.path.is_dir():
            raise DataError(f"{self.path}: is a folder; name a file for --guard-report.")
        if not self.path.is_file():  # nothing, or a device or pipe
            return []
        found: list[tuple[int, bytes]] = []
        with self.path.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n") and (found or _CUT_SHORT.fullmatch(line)):
                    break  # the process died while it wrote this
                try:
                    record = parse_json(line)
                    if tuple(record) != FIELDS:
                        raise ValueError
                    found.append((int(record["line"]), line))
                except (ValueError, TypeError):
                    raise DataError(
                        f"{self.path}: exists, and is not a guard report. Name another file for --guard-report."
                    ) from None
        return found


def _beside(path: Path) -> Iterator[Path]:
    yield path
    for number in itertools.count(2):
        yield path.with_stem(f"{path.stem}-{number}")


def _is_free(path: Path) -> bool:
    return not (path.exists() or path.is_symlink())


def _lock(path: Path) -> Path:
    path = path.resolve()  # a link and the file that it leads to have one lock
    return path.with_name(f".{path.name}.lock")


def _is_locked(path: Path, stack: contextlib.ExitStack) -> bool:
    """Take the lock of a report until the stack is left; False if another process holds it."""
    try:
        stack.enter_context(exclusive(_lock(path), wait=False))
    except BlockingIOError:
        return False
    except OSError as error:
        raise DataError(f"{path.parent}: cannot be written to ({error.strerror}).") from None
    return True
