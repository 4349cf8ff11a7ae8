"""Put small mistakes into the code, one at a time, and count how many of them the tests notice.

The mistakes are those of mutmut's operators: a comparison turned round, an argument left out, a number one too large.
Each one goes into a copy of the project. Those tests of its room that run the changed line run there until one fails,
then the other tests of their files. Processes that tests start are not followed: a line that runs only there is tested
by the whole room.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import coverage
import libcst as cst
import pytest
from mutmut.mutation.mutators import mutation_operators

ROOMS = ("model", "kernels", "training", "search", "translation", "checkpoint", "data")
# The model's tests run with every choice of kernels.
TESTED_BY = {
    "kernels": ("kernels", "model"),
    "search": ("search", "translation"),
    "translation": ("translation", "search"),
}
PROJECT = Path(__file__).parents[1]
# A test that waits for what never comes must end some time, even where its room takes a moment.
LEAST_SECONDS, TIMES_AS_LONG = 60.0, 3.0


@dataclass(frozen=True)
class Place:
    """A node of a file's syntax tree, with all mistakes that may be made there."""

    path: Path
    """Relative to the project."""
    module: cst.Module
    node: cst.CSTNode
    mistakes: tuple[tuple[str, cst.CSTNode], ...]
    """The operator's name, and what takes the node's place."""

    @property
    def room(self) -> str:
        """The folder of nmt/ that the file lies in."""
        return self.path.parts[1]


@dataclass(frozen=True)
class Mutant:
    """A file with one mistake in it."""

    path: Path
    room: str
    kind: str
    """Of mistake: an operator of mutmut's."""
    code: str
    difference: str
    """The lines that differ, with their number."""
    lines: range
    """Numbers of the changed lines, in the file without the mistake."""


class _Places(cst.CSTVisitor):
    """Collects the nodes that an operator can change."""

    def __init__(self, path: Path, module: cst.Module) -> None:
        super().__init__()
        self._path, self._module = path, module
        self.found: list[Place] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator) or _is_never_changed(node):
            return False
        mistakes = tuple(
            (operator.__name__.removeprefix("operator_"), mutated)
            for type_, operator in mutation_operators
            if isinstance(node, type_)
            for mutated in operator(node)
        )
        if mistakes:
            self.found.append(Place(self._path, self._module, node, mistakes))
        return True


def _is_never_changed(node: cst.CSTNode) -> bool:
    # Other words in a message are no mistake of the program. len(None) and the like fail wherever they run.
    if isinstance(node, cst.SimpleString):
        return " " in node.value
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in ("len", "isinstance")


def places(room: str) -> list[Place]:
    """All places of a room, in the order of its files and lines."""
    found = []
    for path in sorted((PROJECT / "nmt" / room).rglob("*.py")):
        module = cst.parse_module(path.read_text("utf-8"))
        visitor = _Places(path.relative_to(PROJECT), module)
        module.visit(visitor)
        found += visitor.found
    return found


def sample(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants: each place is as likely as any other, then each mistake that may be made there."""
    draw = random.Random(seed)
    everywhere = [place for room in rooms for place in places(room)]
    chosen = draw.sample(everywhere, min(count, len(everywhere)))
    print(f"{len(everywhere):,} places in {', '.join(rooms)}; {len(chosen)} drawn with seed {seed}", flush=True)
    return [_mutant(place, *draw.choice(place.mistakes)) for place in chosen]


def _mutant(place: Place, kind: str, mutated: cst.CSTNode) -> Mutant:
    before = place.module.code
    changed = place.module.deep_replace(place.node, mutated)
    assert isinstance(changed, cst.Module)
    hunks = list(difflib.unified_diff(before.splitlines(), changed.code.splitlines(), n=0, lineterm=""))[2:]
    first, count = re.match(r"@@ -(\d+)(?:,(\d+))?", hunks[0]).groups()  # type: ignore[union-attr]
    lines = range(int(first), int(first) + int(count or 1))
    return Mutant(place.path, place.room, kind, changed.code, "\n".join(f"    {line}" for line in hunks), lines)


@dataclass(frozen=True)
class Coverage:
    """Which tests of a room run which lines, and how long each test takes. Processes that tests start do not count."""

    seconds: dict[str, float]
    """By test, in the order in which they ran."""
    tests: dict[str, dict[int, list[str]]]
    """By file and line."""

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that ran the changed lines, or else the function around them; the shortest files' first."""
        of_file = self.tests.get(str(mutant.path), {})
        around = _function_around(PROJECT / mutant.path, mutant.lines.start)
        ran = set[str]()
        for lines in (mutant.lines, around):
            ran = ran or {test for line in lines for test in of_file.get(line, [])}
        by_file: dict[str, list[str]] = {}
        for test in self.seconds:
            if test in ran:
                by_file.setdefault(_file_of(test), []).append(test)
        return [test for tests in sorted(by_file.values(), key=self._total) for test in tests]

    def _total(self, tests: list[str]) -> float:
        return sum(self.seconds[test] for test in tests)


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _function_around(path: Path, line: int) -> range:
    """The lines of the innermost function's body that a line is in; none for a line outside of functions."""
    bodies = [
        range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and line in range(node.lineno, (node.end_lineno or 0) + 1)
    ]
    return min(bodies, key=len, default=range(0))


class Copy:
    """A copy of the project, in which the tests run."""

    def __init__(self, folder: Path) -> None:
        """Copy all files that git does not ignore."""
        self._folder = folder
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listed, cwd=PROJECT, capture_output=True, text=True, check=True).stdout.split("\0"):
            if name and (PROJECT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(PROJECT / name, folder / name)
        # Two mutants of one size, written within a second, must not be taken for each other: compare by hash.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "nmt"]
        subprocess.run(compiling, cwd=folder, check=True)

    def test_files(self, room: str, path: Path | None = None) -> list[str]:
        """The room's test files, those first that are named after a file of it, then those that import it."""
        folders = [self._folder / "tests" / tested for tested in TESTED_BY.get(room, (room,))]
        files = [file for folder in folders for file in sorted(folder.rglob("test_*.py"))]
        if path is not None:
            name = ".".join(path.with_suffix("").parts)
            files.sort(key=lambda file: (file.stem != f"test_{path.stem}", name not in file.read_text("utf-8")))
        return [str(file.relative_to(self._folder)) for file in files]

    @contextlib.contextmanager
    def holding(self, mutant: Mutant) -> Iterator[None]:
        """Hold a mutant while the body runs."""
        file = self._folder / mutant.path
        before = file.read_bytes()
        file.write_text(mutant.code, "utf-8")
        try:
            yield
        finally:
            file.write_bytes(before)

    def measure(self, room: str, seed: int) -> Coverage:
        """Run the tests of a room on the code as it is, and note which lines each of them runs."""
        record = self._folder / "coverage.json"
        if status := self.run(self.test_files(room), seed, None, record):
            sys.exit(f"error: the tests of {room} fail without any mutant (pytest's status is {status})")
        noted = json.loads(record.read_text("utf-8"))
        tests = {path: {int(line): ran for line, ran in lines.items()} for path, lines in noted["tests"].items()}
        return Coverage(noted["seconds"], tests)

    def run(self, tests: Sequence[str], seed: int, seconds: float | None, record: Path | None = None) -> int | None:
        """Run tests up to the first failure; returns pytest's status, or None when the time was up.

        Args:
            record: a file for what :class:`Coverage` holds.
        """
        process = multiprocessing.get_context("fork").Process(
            target=_run_tests, args=(self._folder, tests, seed, record)
        )
        process.start()
        try:
            process.join(seconds)
            return process.exitcode
        finally:
            # What the tests started may have outlived them.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()


class _Recorder:
    """A plugin of pytest that notes which lines of nmt/ each test runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._coverage = coverage.Coverage(data_file=None, source=[str(folder / "nmt")], config_file=False)
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        begin = time.monotonic()
        result = yield
        self._seconds[item.nodeid] = time.monotonic() - begin
        return result

    @contextlib.contextmanager
    def writing(self, record: Path) -> Iterator[None]:
        """Record while the body runs."""
        self._coverage.start()
        yield
        self._coverage.stop()
        data = self._coverage.get_data()
        tests = {
            str(Path(path).relative_to(self._folder)): {
                line: [test for test in ran if test] for line, ran in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        record.write_text(json.dumps({"seconds": self._seconds, "tests": tests}), "utf-8")


def _run_tests(folder: Path, tests: Sequence[str], seed: int, record: Path | None) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path[:] = [str(folder), *sys.path[1:]]
    with Path(os.devnull).open("w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    options = ["-x", "-q", "-n0", "-m", "not slow", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
    if record is None:
        sys.exit(pytest.main([*options, *tests]))
    recorder = _Recorder(folder)
    with recorder.writing(record):
        status = pytest.main([*options, *tests], plugins=[recorder])
    sys.exit(status)


def import_libraries() -> None:
    """Import once what takes every test run seconds to import. The project itself is not among it."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["COVERAGE_CORE"] = "ctrace"  # the other core cannot tell tests apart
    for name in ("torch", "torch.nn", "safetensors.torch", "pydantic", "sacrebleu", "sentencepiece", "typer", "rich"):
        importlib.import_module(name)


# The copy of this worker.
_copy: Copy


def _begin_worker(folder: Path) -> None:
    global _copy
    _copy = Copy(Path(tempfile.mkdtemp(dir=folder)).resolve())


def _measure(room: str, seed: int) -> Coverage:
    return _copy.measure(room, seed)


def _examine(mutant: Mutant, covered: Coverage, options: argparse.Namespace) -> tuple[int | None, float]:
    """pytest's status (None: the time was up) with a mutant, and how long that took."""
    begin = time.monotonic()
    status: int | None = 0
    with _copy.holding(mutant):
        for tests in _in_turn(mutant, covered, thorough=options.thorough):
            if status == 0 and tests:
                usual = sum(covered.seconds[test] for test in tests)
                limit = options.seconds or max(LEAST_SECONDS, TIMES_AS_LONG * usual)
                status = _copy.run(tests, options.seed, limit)
                if status == pytest.ExitCode.USAGE_ERROR:  # the mistake changed the name of a test
                    status = _copy.run(sorted({_file_of(test) for test in tests}), options.seed, None)
    return status, time.monotonic() - begin


def _in_turn(mutant: Mutant, covered: Coverage, *, thorough: bool) -> Iterator[list[str]]:
    """The tests that ran the changed line; the other tests of their files, which share fixtures; perhaps all others."""
    first = covered.of(mutant)
    yield first
    files = {_file_of(test) for test in first}
    others = [test for test in covered.seconds if test not in set(first)]
    yield [test for test in others if _file_of(test) in files]
    if thorough or not first:
        order = _copy.test_files(mutant.room, mutant.path)
        yield sorted((test for test in others if _file_of(test) not in files), key=lambda t: order.index(_file_of(t)))


def share(noticed: int, count: int, slow: int) -> str:
    """How many were noticed, also as a percentage, and how many of these by the time limit alone."""
    by_time = f", {slow} of them by the time limit" if slow else ""
    return f"{noticed} of {count} noticed ({noticed / count:.0%}{by_time})"


def main() -> None:
    """Draw mutants, test each, and print how many were noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200, help="number of mutants (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (default: 1)")
    parser.add_argument("--rooms", nargs="+", default=list(ROOMS), choices=ROOMS, help="rooms (default: all)")
    parser.add_argument(
        "--seconds", type=float, help="limit per mutant (default: three times as long as its tests take)"
    )
    parser.add_argument("--workers", type=int, default=2, help="mutants examined at once (default: 2)")
    parser.add_argument(
        "--thorough", action="store_true", help="where no test that ran the line fails, run all tests of the room"
    )
    options = parser.parse_args()
    mutants = sample(options.rooms, options.mutants, options.seed)
    counts, noticed, slow = Counter[str](), Counter[str](), Counter[str]()
    survivors: list[Mutant] = []
    import_libraries()
    with (
        tempfile.TemporaryDirectory(prefix="nmt-mutants-") as folder,
        ProcessPoolExecutor(
            options.workers, multiprocessing.get_context("fork"), initializer=_begin_worker, initargs=(Path(folder),)
        ) as workers,
    ):
        try:
            rooms = sorted({mutant.room for mutant in mutants})
            covered = {room: workers.submit(_measure, room, options.seed) for room in rooms}
            for room, coverage_of_room in covered.items():
                seconds = sum(coverage_of_room.result().seconds.values())
                print(f"tests of {room}: {seconds:.0f} s", flush=True)
            examined = {
                workers.submit(_examine, mutant, covered[mutant.room].result(), options): mutant for mutant in mutants
            }
            for number, future in enumerate(as_completed(examined), start=1):
                mutant, (status, took) = examined[future], future.result()
                counts[mutant.room] += 1
                if status == 0:
                    survivors.append(mutant)
                else:
                    noticed[mutant.room] += 1
                    slow[mutant.room] += status is None
                verdict = "SURVIVED" if status == 0 else "time limit" if status is None else "noticed"
                print(f"{number}: {verdict} after {took:.0f} s: {mutant.path} ({mutant.kind})", flush=True)
                if status == 0:
                    print(mutant.difference, flush=True)
        except KeyboardInterrupt:
            workers.shutdown(wait=False, cancel_futures=True)
            print("interrupted", flush=True)
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            raise
    for room, count in counts.items():
        print(f"{room}: {share(noticed[room], count, slow[room])}")
    if counts:
        print(f"all: {share(noticed.total(), counts.total(), slow.total())}")
    for kind, count in Counter(mutant.kind for mutant in survivors).most_common():
        print(f"survivors of {kind}: {count}")
    for mutant in survivors:
        print(f"{mutant.path} ({mutant.kind})\n{mutant.difference}")


if __name__ == "__main__":
    main()
