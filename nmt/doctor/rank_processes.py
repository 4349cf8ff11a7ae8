"""Several ranks of a worker, started and waited for."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence

from nmt.errors import NmtError
from nmt.training.ranks.rendezvous import environment_of_rank, private_rendezvous

_POLL_SECONDS = 0.05


def output_of_main_rank(arguments: Sequence[str], ranks: int, *, seconds: float) -> str:
    """Run ``python -m ARGUMENTS`` as several ranks of this machine; returns the last line that the main rank printed.

    Raises:
        NmtError: a rank failed, or they took longer than ``seconds``. The message says why.
    """
    command = [sys.executable, "-P", "-m", *arguments]
    with private_rendezvous() as rendezvous, contextlib.ExitStack() as stack:
        processes = []
        for rank in range(ranks):
            environment = environment_of_rank(rank, ranks, rendezvous)
            process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            stack.callback(process.kill)
            processes.append(process)
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes) or time.monotonic() > deadline:
                break  # the others would wait for it
            time.sleep(_POLL_SECONDS)
        for process in processes:
            if process.poll():
                _, errors = process.communicate()
                raise NmtError(last_line(errors, process.returncode))
        if any(process.poll() is None for process in processes):
            raise NmtError(f"no result within {seconds:.0f} s")
        printed, _ = processes[0].communicate()
    # NCCL may print its own lines before.
    return printed.splitlines()[-1]


def last_line(errors: str, code: int) -> str:
    """The last line of what a failed process wrote to stderr."""
    return (errors.strip().splitlines() or [f"exit code {code}"])[-1].replace(sys.executable, "python")
