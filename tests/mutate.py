"""Put small mistakes into the code, one at a time, and count how many of them the tests notice.

The mistakes are those of mutmut's operators: a comparison turned round, an argument left out, a number one too large.
Each one goes into a copy of the project, and the tests of its room run there until the first of them fails.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
    return Mutant(place.path, place.room, kind, changed.code, "\n".join(f"    {line}" for line in hunks))


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

    def test_files(self, room: str, path: Path | None) -> list[str]:
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

    def run(self, files: list[str], seed: int, seconds: float | None) -> int | None:
        """Run tests up to the first failure; returns pytest's status, or None when the time was up."""
        process = multiprocessing.get_context("fork").Process(target=_run_tests, args=(self._folder, files, seed))
        process.start()
        try:
            process.join(seconds)
            return process.exitcode
        finally:
            # What the tests started may have outlived them.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.join()


def _run_tests(folder: Path, files: list[str], seed: int) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder)
    sys.path[:] = [str(folder), *sys.path[1:]]
    with Path(os.devnull).open("w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    options = ["-x", "-q", "-n0", "-m", "not slow", "-p", "no:cacheprovider", f"--hypothesis-seed={seed}"]
    sys.exit(pytest.main([*options, *files]))


def import_libraries() -> None:
    """Import once what takes every test run seconds to import. The project itself is not among it."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in ("torch", "torch.nn", "safetensors.torch", "pydantic", "sacrebleu", "sentencepiece", "typer", "rich"):
        importlib.import_module(name)


def time_limit(copy: Copy, room: str, seed: int) -> float:
    """How long the tests of a room may take, found by running them on the code as it is."""
    begin = time.monotonic()
    if status := copy.run(copy.test_files(room, None), seed, None):
        sys.exit(f"error: the tests of {room} fail without any mutant (pytest's status is {status})")
    took = time.monotonic() - begin
    print(f"tests of {room}: {took:.0f} s", flush=True)
    return max(LEAST_SECONDS, TIMES_AS_LONG * took)


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
        "--seconds", type=float, help="limit per mutant (default: three times as long as its room takes)"
    )
    options = parser.parse_args()
    mutants = sample(options.rooms, options.mutants, options.seed)
    counts, noticed, slow = Counter[str](), Counter[str](), Counter[str]()
    survivors: list[Mutant] = []
    import_libraries()
    with tempfile.TemporaryDirectory(prefix="nmt-mutants-") as folder:
        copy = Copy(Path(folder))
        limits = {
            room: options.seconds or time_limit(copy, room, options.seed)
            for room in sorted({mutant.room for mutant in mutants})
        }
        try:
            for number, mutant in enumerate(mutants, start=1):
                begin = time.monotonic()
                with copy.holding(mutant):
                    status = copy.run(copy.test_files(mutant.room, mutant.path), options.seed, limits[mutant.room])
                counts[mutant.room] += 1
                if status == 0:
                    survivors.append(mutant)
                else:
                    noticed[mutant.room] += 1
                    slow[mutant.room] += status is None
                verdict = "SURVIVED" if status == 0 else "time limit" if status is None else "noticed"
                took = time.monotonic() - begin
                print(f"{number}: {verdict} after {took:.0f} s: {mutant.path} ({mutant.kind})", flush=True)
                if status == 0:
                    print(mutant.difference, flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
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
