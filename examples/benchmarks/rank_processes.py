"""Several ranks of a worker, started and waited for."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

from turns import file_of_output, last_line

from nmt.errors import NmtError
from nmt.training.ranks.rendezvous import environment_of_rank, private_rendezvous

_POLL_SECONDS = 0.05


def output_of_main_rank(program: Sequence[str], ranks: int, *, seconds: float) -> str:
    """Run a program as several ranks of this machine; returns the last line that the main rank printed.

    Args:
        program: the words after ``python``: ``-m`` and a module, or a file; and their arguments.

    Raises:
        NmtError: a rank failed, or they took longer than ``seconds``. The message says why.
        WriteError: the system refused to write temporary files.
    """
    with private_rendezvous() as rendezvous, contextlib.ExitStack() as stack:
        processes, outputs = [], []
        for rank in range(ranks):
            environment = environment_of_rank(rank, ranks, rendezvous)
            output, errors = (stack.enter_context(file_of_output()) for _ in range(2))
            process = subprocess.Popen([sys.executable, *program], env=environment, stdout=output, stderr=errors)
            stack.callback(process.kill)
            processes.append(process)
            outputs.append((output, errors))
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes) or time.monotonic() > deadline:
                break  # the others would wait for it
            time.sleep(_POLL_SECONDS)
        for process, (_, errors) in zip(processes, outputs, strict=True):
            if process.poll():
                raise NmtError(last_line(_content(errors), process.returncode))
        if any(process.poll() is None for process in processes):
            raise NmtError(f"no result within {seconds:.0f} s")
        printed = _content(outputs[0][0])
    if not printed:
        raise NmtError("the main rank printed nothing")
    # NCCL may print its own lines before.
    return printed.splitlines()[-1]


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
