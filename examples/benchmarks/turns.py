"""Contestants of a benchmark, each in its own process, measured in turn.

A machine's speed changes from minute to minute, so contestants must run side by side. All are started and warmed up.
Then each runs once per round while the others wait on standard input, which costs nothing. Separate processes give each
contestant its own allocator and threads.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from nmt.errors import NmtError
from nmt.io.writing import writing


class Contestant:
    """A worker process, whose program calls :func:`serve`. The constructor returns when it is ready."""

    def __init__(self, name: str, program: Sequence[str]) -> None:
        """Start a worker.

        Args:
            program: the words after ``python``: ``-m`` and a module, or a file; and their arguments.
        """
        self.name = name
        self._errors = file_of_output()
        self.started = time.time()
        self._process = subprocess.Popen(
            [sys.executable, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        try:
            self.description = self._answer()
        except BaseException:
            self.close()
            raise

    def run(self, task: str = "run") -> Mapping[str, Any]:
        """Run a task once, and return its measurements.

        Args:
            task: the name of the task, if the worker has several.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(f"{task}\n")
            stdin.flush()
        except BrokenPipeError:
            self._fail()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _answer(self) -> Mapping[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            self._fail()
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def _fail(self) -> None:
        self._process.communicate()
        self._errors.seek(0)
        last = last_line(self._errors.read(), self._process.returncode)
        raise NmtError(f"the benchmark of {self.name} failed: {last}")


def file_of_output() -> IO[str]:
    """A temporary file for what a process prints: a pipe that nobody reads fills up and stops the process.

    Raises:
        WriteError: the system refused to make it.
    """
    with writing(Path(tempfile.gettempdir())):
        return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def last_line(errors: str, code: int) -> str:
    """The last line of what a failed process wrote to stderr."""
    return (errors.strip().splitlines() or [f"exit code {code}"])[-1]


@contextmanager
def started(programs: Mapping[str, Sequence[str]]) -> Iterator[list[Contestant]]:
    """Start one process per name, by its program. All are ended afterwards."""
    contestants: list[Contestant] = []
    try:
        for name, program in programs.items():
            contestants.append(Contestant(name, program))
        yield contestants
    finally:
        for contestant in contestants:
            contestant.close()


def measure_in_turn(
    contestants: Sequence[Contestant], rounds: int, report: Callable[[str], None], task: str | None = None
) -> dict[str, list[Mapping[str, Any]]]:
    """Run a task once per round in each contestant. Returns the measurements of all rounds by contestant."""
    before = "" if task is None else f"{task}, "
    measured: dict[str, list[Mapping[str, Any]]] = {contestant.name: [] for contestant in contestants}
    for number in range(1, rounds + 1):
        for contestant in contestants:
            result = contestant.run(task or "run")
            measured[contestant.name].append(result)
            rate = result["tokens"] / result["seconds"]
            report(f"{before}round {number} of {rounds}: {contestant.name} {rate:,.0f} tokens/s")
    return measured


def median_rate(results: Sequence[Mapping[str, Any]]) -> float:
    """The median over the rounds of tokens per second."""
    return float(statistics.median(result["tokens"] / result["seconds"] for result in results))


def serve(set_up: Callable[[], tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]]) -> None:
    """The worker's side: set up and answer with a description, then run the task that each line on stdin names.

    Args:
        set_up: returns the worker's description, and a function that runs a task.
    """
    # Answers go to a copy of stdout; stdout itself becomes stderr, because libraries may print there.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        description, run = set_up()
        for answer in chain([description], (run(line.strip()) for line in sys.stdin)):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def report_text(result: dict[str, Any]) -> str:
    """The result as indented JSON with a line end."""
    return json.dumps(result, indent=2) + "\n"
