"""What the guard found, line by line, in a file of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

from nmt.decoding.translation import Translation
from nmt.errors import ConfigError, DataError

FIELDS = ("line", "problems", "repaired", "source", "translation")


class GuardReport:
    """A file of JSON objects, one per translation that looked wrong, in the order of the lines."""

    def __init__(self, path: Path | None) -> None:
        """Make ready to write; nothing is touched before :meth:`begin`.

        Args:
            path: None for no report.
        """
        self._path = path
        self._stream: IO[bytes] | None = None

    def check(self, output: Path) -> None:
        """Find mistakes before a model is loaded.

        Args:
            output: where the translations go.

        Raises:
            DataError: the path cannot be written, or something stands there that is no guard report.
            ConfigError: it is that of the output.
        """
        if self._path is None:
            return
        if self._path.resolve() == output.resolve():
            raise ConfigError(f"{self._path}: is also the --output. Name another file for --guard-report.")
        if not self._path.parent.is_dir():
            raise DataError(f"{self._path.parent}: there is no such folder to write --guard-report to.")
        self._earlier()

    def begin(self, done: int) -> None:
        """Open the file, behind what an interrupted translation reported.

        Args:
            done: lines that were translated before; what was reported of later ones is dropped.

        Raises:
            DataError: something stands there that is no guard report, or it cannot be written.
        """
        if self._path is None:
            return
        kept = [line for number, line in self._earlier() if number <= done]
        try:
            self._stream = self._path.open("wb")
        except OSError as error:
            raise DataError(f"{self._path}: cannot be written ({error.strerror}).") from None
        self._stream.writelines(kept)

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
        assert self._path is not None
        if self._path.is_dir():
            raise DataError(f"{self._path}: is a folder; name a file for --guard-report.")
        if not self._path.is_file():  # nothing, or a device or pipe
            return []
        found: list[tuple[int, bytes]] = []
        with self._path.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n") and found:
                    break  # the process died while it wrote this
                try:
                    record = json.loads(line)
                    if tuple(record) != FIELDS:
                        raise ValueError
                    found.append((int(record["line"]), line))
                except (ValueError, TypeError):
                    raise DataError(
                        f"{self._path}: exists, and is not a guard report. Name another file for --guard-report."
                    ) from None
        return found
