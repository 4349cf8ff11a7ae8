"""``nmt train --nproc N``: the same command once per rank of this machine, watched until all have ended."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from nmt.errors import TrainingError
from nmt.exit_codes import how_it_ended
from nmt.training.ranks.rendezvous import environment_of_rank, private_rendezvous
from nmt.training.ranks.stop_signals import stop_signals

_SECONDS_BETWEEN_LOOKS = 0.05
# For the running update and its checkpoint, after which ranks that still run are killed.
_SECONDS_TO_SAVE = 45.0
# Exit codes of a rank that has printed its own error: an exception, and a user's mistake.
_EXPLAINED = (1, 2)


def launch(arguments: Sequence[str], ranks: int) -> int:
    """Run ``python -m nmt ARGUMENTS`` as so many ranks, and wait for them. A signal to stop is passed on to all.

    Returns:
        The exit code: 0; 1 or 2 where a rank has printed its error; 128 + n after signal n.

    Raises:
        TrainingError: a rank was killed, or ended without an error of its own; names it. Or the ranks have no place to
            find each other.
    """
    with private_rendezvous() as rendezvous, _noting_signals() as signals:
        job = _Job(signals)
        try:
            for rank in range(ranks):
                job.processes.append(_start(arguments, environment_of_rank(rank, ranks, rendezvous)))
            job.watch()
        finally:
            job.kill()
    again = "`nmt train --resume RUN`" if "--fresh" in arguments else "the same command"
    if job.failed is not None:
        code = job.codes[job.failed]
        if code in _EXPLAINED:
            return int(code)
        raise TrainingError(
            f"rank {job.failed} {how_it_ended(code)}; the other ranks were ended. Run {again} to resume from the last "
            "checkpoint."
        )
    if job.killed:
        raise TrainingError(
            f"rank {', '.join(map(str, job.killed))} did not end within {_SECONDS_TO_SAVE:g} seconds of the signal to "
            f"stop, and was killed. Run {again} to resume from the last checkpoint."
        )
    interrupted = next((code for code in job.codes if code), 0)
    return 128 + signals[0] if interrupted and signals else interrupted


@dataclass
class _Job:
    """The processes of all ranks, in their order."""

    signals: list[int]
    """The signals to stop that have come."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    failed: int | None = None
    """The rank that failed first."""
    killed: list[int] = field(default_factory=list)
    """The ranks that did not end in time."""

    @property
    def codes(self) -> list[int]:
        """Exit codes, negative after a signal. Only when all have ended."""
        return [process.returncode for process in self.processes]

    def watch(self) -> None:
        """Wait until all ranks have ended. When one fails, or a signal comes, the others are asked to end, too."""
        passed_on, deadline = 0, math.inf
        while running := [process for process in self.processes if process.poll() is None]:
            if self.failed is None and (failed := self._failures()):
                self.failed = failed[0]
                _send(signal.SIGTERM, running)
            for number in self.signals[passed_on:]:
                _send(number, running)
                passed_on += 1
            if deadline == math.inf and (passed_on or any(process.returncode for process in self.processes)):
                deadline = time.monotonic() + _SECONDS_TO_SAVE
            if time.monotonic() > deadline:
                self.kill()
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if self.failed is None and not self.killed and (failed := self._failures()):
            self.failed = failed[0]

    def kill(self) -> None:
        """Kill the ranks that still run."""
        for rank, process in enumerate(self.processes):
            if process.poll() is None:
                process.kill()
                process.wait()
                self.killed.append(rank)

    def _failures(self) -> list[int]:
        """The ranks that failed, those that were killed first: the others may have failed for want of them.

        A rank that a signal stopped, as one of ours does, has not failed.
        """
        codes = {rank: process.returncode for rank, process in enumerate(self.processes) if process.returncode}
        failed = [rank for rank, code in codes.items() if code < 128 and -code not in self.signals]
        return sorted(failed, key=lambda rank: codes[rank] > 0)


def _start(arguments: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    # The rank imports what this process imports: neither the working directory (-P) nor another place comes first. Its
    # own session keeps the terminal's signals from it, which would come twice.
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    command = [sys.executable, "-P", "-m", "nmt", *arguments]
    return subprocess.Popen(command, env=environment | {"PYTHONPATH": path}, start_new_session=True)


def _send(number: int, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(number)


@contextmanager
def _noting_signals() -> Iterator[list[int]]:
    """While the body runs, signals to stop are only noted."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
