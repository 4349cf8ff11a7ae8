"""``nmt train --nproc N``: start the same command once per rank on this machine, and wait until all have ended."""

from __future__ import annotations

import math
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from nmt.errors import TrainingError
from nmt.machine.exit_codes import how_it_ended
from nmt.machine.modules import start_module
from nmt.training.ranks.rendezvous import environment_of_rank, private_rendezvous
from nmt.training.ranks.stop_signals import SECONDS_OF_ONE_SIGNAL, stop_signals

CLAIMED_VARIABLE = "NMT_CLAIMED_RUN"
"""Names to each rank the folder that was claimed for a fresh start."""
_POLL_SECONDS = 0.05
# Ranks end together, so the others have this time once one has ended. Before that, an update and its checkpoint take as
# long as they take, unless the user asks a second time.
_SECONDS_TO_END = 45.0
# Exit codes of a rank that has printed its own error: an exception, or a user error.
_EXPLAINED = (1, 2)


class PrintedError(TrainingError):
    """A rank failed, and has printed its error."""

    def __init__(self, message: str, exit_code: int) -> None:
        """Take the exit code of the rank."""
        super().__init__(message)
        self.exit_code = exit_code


def launch(arguments: Sequence[str], ranks: int, claimed: Path | None = None) -> int:
    """Run ``python -m nmt ARGUMENTS`` as ``ranks`` processes, and wait for them. Signals to stop are passed on to all.

    Args:
        claimed: the run's folder, if the caller has created it for a fresh start.

    Returns:
        The exit code: 0, or 128 + n after signal n.

    Raises:
        PrintedError: a rank has printed its error.
        TrainingError: a rank was killed, or failed without printing an error (the message names it); or no temporary
            folder can be made.
    """
    with private_rendezvous() as rendezvous, _noting_signals() as signals:
        job = _Job(signals)
        try:
            for rank in range(ranks):
                environment = environment_of_rank(rank, ranks, rendezvous)
                if claimed is not None:
                    environment[CLAIMED_VARIABLE] = str(claimed)
                job.processes.append(start_module("nmt", arguments, environment=environment))
            job.watch()
        finally:
            job.kill()
    again = "the same command" if claimed is None else f"`nmt train --resume {claimed}`"
    if job.failed is not None:
        code = job.codes[job.failed]
        if code in _EXPLAINED:
            raise PrintedError(
                f"rank {job.failed} failed and printed its error; the other ranks were ended. Once its cause is "
                f"removed, run {again} to resume from the last checkpoint.",
                code,
            )
        raise TrainingError(
            f"rank {job.failed} {how_it_ended(code)}; the other ranks were ended. Run {again} to resume from the last "
            "checkpoint."
        )
    if job.killed:
        raise TrainingError(
            f"rank {', '.join(map(str, job.killed))} did not end within {_SECONDS_TO_END:g} seconds of another rank "
            f"or of a second signal to stop, and was killed. Run {again} to resume from the last checkpoint."
        )
    interrupted = next((code for code in job.codes if code), 0)
    return 128 + signals[0] if interrupted and signals else interrupted


@dataclass
class _Job:
    """The processes of all ranks, in order."""

    signals: list[int]
    """The signals to stop received so far."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    failed: int | None = None
    """The rank that failed first."""
    killed: list[int] = field(default_factory=list)
    """The ranks that did not end in time."""

    @property
    def codes(self) -> list[int]:
        """The exit codes, negative after a signal. Valid when all processes have ended."""
        return [process.returncode for process in self.processes]

    def watch(self) -> None:
        """Wait until all ranks have ended. If a rank fails or a signal arrives, signal all running ranks to end."""
        passed_on, first, deadline = 0, math.inf, math.inf
        while running := [process for process in self.processes if process.poll() is None]:
            if self.failed is None and (failed := self._failures()):
                self.failed = failed[0]
                _send(signal.SIGTERM, running)
            now, is_urgent = time.monotonic(), any(process.returncode for process in self.processes)
            for number in self.signals[passed_on:]:
                _send(number, running)
                passed_on += 1
                first = min(first, now)
                is_urgent |= number != signal.SIGHUP and now - first > SECONDS_OF_ONE_SIGNAL
            if is_urgent:
                deadline = min(deadline, now + _SECONDS_TO_END)
            if now > deadline:
                self.kill()
            time.sleep(_POLL_SECONDS)
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
        """The failed ranks. Killed ranks come first, because the others may have failed as a consequence.

        A rank that was stopped by a signal to stop has not failed.
        """
        codes = {rank: process.returncode for rank, process in enumerate(self.processes) if process.returncode}
        failed = [rank for rank, code in codes.items() if code < 128 and -code not in self.signals]
        return sorted(failed, key=lambda rank: codes[rank] > 0)


def _send(number: int, processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(number)


@contextmanager
def _noting_signals() -> Iterator[list[int]]:
    """Collect the signals to stop that arrive while the body runs, instead of stopping."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.signal(number, note) for number in stop_signals()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
