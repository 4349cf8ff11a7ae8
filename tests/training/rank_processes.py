"""Starts the ranks of a run as torchrun would."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from tests.commands import start_python

SCRIPT = Path(__file__).with_name("rank_program.py")
"""What each rank runs, and how a test disturbs it."""


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


class Rank:
    """One rank of a run."""

    def __init__(self, rank: int, ranks: int, port: int, arguments: Sequence[object], errors: Path) -> None:
        """Start it without torchrun: nobody ends the others when one fails."""
        self._errors = errors
        self.process = start_python(
            [SCRIPT, *arguments],
            stderr=errors,
            environment={
                "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            },
        )  # fmt: skip

    def finish(self, seconds: float = 120) -> str:
        """Wait for its end; what it wrote to standard error."""
        self.process.wait(seconds)
        return self._errors.read_text("utf-8")


def start_ranks(count: int, folder: Path, *arguments: object) -> list[Rank]:
    """One process per rank; their standard errors go to files in a folder."""
    port = free_port()
    errors = [folder / f"rank-{port}-{rank}.errors" for rank in range(count)]
    return [Rank(rank, count, port, arguments, errors[rank]) for rank in range(count)]
