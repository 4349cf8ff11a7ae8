"""Starts the ranks of a run as torchrun would."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tests.commands import start_python
from tests.processes import SECONDS

SCRIPT = Path(__file__).with_name("rank_program.py")
"""What each rank runs, and how a test disturbs it."""


# Below those that the system hands out itself. Each worker of the suite has a range of its own, and begins anywhere in
# it: another run of the suite has the same range.
_PORTS = itertools.count(os.getpid())
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def free_port() -> int:
    """A port that nothing on this machine listens on, nor another worker of the suite will."""
    while True:
        port = 20_000 + 500 * _WORKER + next(_PORTS) % 500
        with socket.socket() as listening, contextlib.suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port


class Rank:
    """One rank of a run."""

    def __init__(
        self, rank: int, ranks: int, port: int, words: Sequence[object], environment: Mapping[str, str]
    ) -> None:
        """Start it without torchrun: nobody ends the others when one fails."""
        self.process, stderr = start_python(
            words,
            environment={
                "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment,
            },
        )  # fmt: skip

        self._errors = b""
        self._reader = threading.Thread(target=self._read, args=(stderr,))
        self._reader.start()

    def finish(self, seconds: float = SECONDS) -> str:
        """Wait for its end; what it wrote to standard error."""
        self.process.wait(seconds)
        self._reader.join()
        return self._errors.decode()

    def _read(self, stderr: BinaryIO) -> None:
        with stderr:
            self._errors = stderr.read()


def start_ranks(
    count: int, *arguments: object, environment: Mapping[str, str] | None = None, script: str | Path = SCRIPT
) -> list[Rank]:
    """One process per rank."""
    port = free_port()
    return [Rank(rank, count, port, [script, *arguments], environment or {}) for rank in range(count)]
