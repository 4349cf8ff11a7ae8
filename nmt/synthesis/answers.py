"""Answers of a language model, kept in a file: what was answered once is not asked again, whatever ends the process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from nmt.errors import DataError

Ending = Literal["", "refused", "cut_off", "rejected", "no_answer"]
"""Why an answer is no translation, as far as the server says so."""
WITHOUT_ANSWER: tuple[Ending, ...] = ("rejected", "no_answer")
_APPLICATION = 0x6E6D7461
"""``nmta``: SQLite's mark of whose file it is."""


class Answer(NamedTuple):
    """What a language model answered."""

    text: str
    ending: Ending = ""


class Answers:
    """The answers in an SQLite file, by the digest of their request. Threads may use it at the same time."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Answers]:
        """Open the file, or make it.

        Raises:
            DataError: it is damaged or something else, another process uses it, or it cannot be written.
        """
        with _naming(path):
            connection = sqlite3.connect(path, timeout=0, check_same_thread=False)
        with closing(connection), _naming(path):
            answers = cls(path, connection)
            answers._prepare()
            yield answers

    def _prepare(self) -> None:
        # A file of somebody else may hold more than tables.
        self._connection.execute("PRAGMA trusted_schema = OFF")
        # A log is written to disk faster than the file; with the lock, it needs no shared memory, which networks lack.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        [[application]] = self._connection.execute("PRAGMA application_id")
        schema = list(self._connection.execute("SELECT type, name FROM sqlite_master"))
        if not schema and application in (0, _APPLICATION):  # new, or of a process that was killed here
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._connection.execute(
                "CREATE TABLE answers (request TEXT PRIMARY KEY, text TEXT NOT NULL, ending TEXT NOT NULL) "
                "WITHOUT ROWID"
            )
        elif application != _APPLICATION or schema != [("table", "answers")]:
            raise DataError(f"{self._path}: holds something else than answers of a teacher. Name another --out.")

    def find(self, request: str) -> Answer | None:
        """The answer to a request; None if it is not known."""
        with self._lock:
            rows = self._connection.execute("SELECT text, ending FROM answers WHERE request = ?", (request,))
            found = rows.fetchone()
        return None if found is None else Answer(*map(str, found))  # type: ignore[arg-type]

    def keep(self, request: str, answer: Answer) -> None:
        """Write an answer to disk."""
        with self._lock, self._connection:
            self._connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (request, *answer))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        advice = "Free the disk if it is full; else move the file away, which asks the teacher again."
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
            advice = "Another process uses it: wait until that ends."
        raise DataError(f"{path}: cannot be used as the file of a teacher's answers ({error}). {advice}") from None
