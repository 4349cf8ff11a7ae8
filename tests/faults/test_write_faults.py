"""Every way in which nmt writes, every place in it, every fault of a disk: the error names the file, what stood stands,
and the same command succeeds once the fault is gone.

All that nmt writes goes through few ways (``tests/io/test_writing.py`` keeps it so). The commands here take all of
them. In each case one writer of a command fails; `make test-slow` lets every writer fail.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from tests.convert.unexamined import examine_nothing
from tests.faults.disk import Disk, Fault, Operation, mounted
from tests.kit.world import make_world, run_nmt, write_recipe
from tests.trees import contents

FAULTS = ("ENOSPC", "EDQUOT", "EIO", "EFBIG", "EACCES", "EROFS")
PLACES = ("first write", "middle write", "last write", "flush", "rename", "make")
NOTHING = r"(?!)"


@dataclass(frozen=True)
class Command:
    """A command that writes. The fields are patterns of names."""

    line: str
    leaves: str = NOTHING
    """What it may leave behind when it fails: parts that it resumes from."""
    adds_to: str = NOTHING
    """The files that it resumes and so may change when it fails."""
    warns_of: str = NOTHING
    """The writers whose failure is no reason to end: it warns instead."""
    varies: str = NOTHING
    """The files that differ from run to run."""


COMMANDS = {
    "downloads and a data set": Command(
        "prepare-data mirrored.yaml --jobs 1 --mirror mirror --cache cache --out sets/text", leaves="cache(/.*)?"
    ),
    "vocabulary and shards of several data sets": Command(
        "build-vocab --data sets/data --data sets/text --size 60 --threads 1 --force"
    ),
    "a run that is resumed": Command(
        "train --data sets/data --config quick.yaml --out runs/run --set training.max_updates=3",
        adds_to=r"runs/run/(metrics\.jsonl|config\.yaml|data\.json|manifests/.*|last|best)",
        leaves=r"runs/run/checkpoints/step-\d+(/.*)?",
        warns_of=r"runs/run(/(last|best|\.(last|best)\..*))?",
        varies=r"runs/run/(metrics\.jsonl|checkpoints/step-00000003/(training|checksums)\.json)",
    ),
    "a new run": Command(
        "train --data sets/data --config quick.yaml --out runs/new",
        leaves="runs/new(/.*)?",
        warns_of=r"runs/new(/(last|best|\.(last|best)\..*))?",
        varies=r"runs/new/(metrics\.jsonl|checkpoints/.*/(training|checksums)\.json)",
    ),
    "a bundle": Command("average-checkpoints runs/run --last 1"),
    "an output that is resumed": Command(
        "translate --model bundle --threads 1 --input input.txt --output out.txt --max-extra-length 3 "
        "--batch-tokens 16",
        leaves=r"out\.txt\.partial(\.json)?|\.out\.txt\.nmt\.json",
    ),
    "a file": Command("report runs/run --out page.html", varies=r"page\.html"),
    "a model of another toolkit": Command("export imported --to marian --out for-marian"),
}
CASES = [
    (name, place, FAULTS[(number + PLACES.index(place)) % len(FAULTS)])
    for number, name in enumerate(COMMANDS)
    for place in PLACES
]
"""Every command with every place and every fault, but not with every pair of these."""


@pytest.fixture(scope="session")  # as long as _CLEAN: a worker may leave this file and come back
def template(tmp_path_factory) -> Path:
    """The world as it is before each case."""
    world = tmp_path_factory.mktemp("faults") / "world"
    make_world(world)
    (world / "tmp").mkdir()
    before = Path.cwd()
    os.chdir(world)
    try:
        write_recipe(world, dedup=False)
        run_nmt(*COMMANDS["downloads and a data set"].line.split())
        write_recipe(world)
    finally:
        os.chdir(before)
    shutil.rmtree(world / "cache")
    return world


@pytest.fixture
def new_world(template, monkeypatch) -> Callable[[], Path]:
    """Make a new world, always in the same place, which becomes the current folder."""
    examine_nothing(monkeypatch)
    monkeypatch.setattr("nmt.training.saving.SECONDS_UNTIL_TRIED", 0.0)
    monkeypatch.setattr("nmt.training.saving.LONGEST_WAIT", 0.1)

    def make() -> Path:
        world = template.parent.resolve() / "case"
        if world.exists():
            monkeypatch.chdir(template.parent)
            shutil.rmtree(world)
        shutil.copytree(template, world, symlinks=True)
        monkeypatch.chdir(world)
        monkeypatch.setenv("TMPDIR", str(world / "tmp"))
        monkeypatch.setattr("tempfile.tempdir", str(world / "tmp"))
        return world

    return make


def run(command: Command) -> tuple[int, str]:
    """Run a command; its exit code and what it says on stderr."""
    result = CliRunner().invoke(app, command.line.split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stderr


_CLEAN: dict[str, tuple[list[Operation], dict[str, bytes | str | None]]] = {}


@pytest.fixture
def clean(new_world) -> Callable[[str], tuple[list[Operation], dict[str, bytes | str | None]]]:
    """What a command does and makes where nothing fails; found out once."""

    def run_clean(name: str) -> tuple[list[Operation], dict[str, bytes | str | None]]:
        if name not in _CLEAN:
            world = new_world()
            with mounted(Disk(world)) as disk:
                assert run(COMMANDS[name])[0] == 0
            _CLEAN[name] = disk.operations, contents(world)
        return _CLEAN[name]

    return run_clean


def faults(operations: list[Operation], place: str, code: int) -> list[Fault]:
    """The faults of a place, one for each writer that comes to it."""
    kind = place.rpartition(" ")[2]
    found = []
    for operation in dict.fromkeys(operations):
        if operation.kind == kind:
            count = operations.count(operation)
            number = {"middle write": count // 2, "last write": count - 1}.get(place, 0)
            found.append(Fault(operation, number, code))
    return found


def meant(path: Path, world: Path) -> set[str]:
    """The names by which a user knows what a process writes: of the file, or of the folder where a library writes."""
    name = str(path.relative_to(world))
    name = re.sub(r"(^|/)\.([^/]+?)\.[0-9a-f]{12}\.(?:tmp|scratch.*)", r"\1\2", name)
    name = re.sub(r"(^|/)\.([^/]+)\.nmt\.old$", r"\1\2", name)
    name = re.sub(r"\.(partial|part)$|/\.text-[^/]+.*", "", name)
    name = re.sub(r"/\.tmp\w+$", "", name)
    is_of_a_library = name.startswith(("sets/data/shards", "sets/text", "tmp", "cache"))
    return {name, str(Path(name).parent)} if is_of_a_library else {name}


def check(command: Command, fault: Fault, new_world: Callable[[], Path], expected: dict) -> None:
    """Let a command fail, and then succeed."""
    world = new_world()
    before = contents(world)
    with mounted(Disk(world, fault)) as disk:
        code, said = run(command)
    assert disk.refused, f"{fault} did not come, but {disk.operations}"
    after = contents(world)

    # The error names the file.
    writer = fault.operation.writer
    if re.fullmatch(command.warns_of, writer) and code == 0:
        assert "could not be updated" in said
    elif code == 0:  # a run tries a checkpoint again
        assert fault.code in (errno.ENOSPC, errno.EDQUOT) and not fault.lasts
        assert re.search(r"checkpoints/.*cannot be written .*tried again", said)
    else:
        assert code == 2, said
        assert said.count("error: ") == 1
        assert re.search("cannot be (written|made)", said)
    assert os.strerror(fault.code) in said
    assert "standard output" not in said and "Traceback" not in said
    # A thread of its own writes checkpoints: which of two files is named depends on who asks first.
    targets = set().union(*(meant(path, world) for path in disk.refused))
    if code and re.fullmatch(command.warns_of, writer):  # the next checkpoint met the same fault
        targets.add(writer.partition("/.")[0].rpartition("/")[0] + "/")
    assert any(target in said for target in targets), (said, targets)
    assert not re.search(r"\.[0-9a-f]{12}\.(tmp|scratch)", said), said

    # What stood stands, and nothing half is left beside it.
    for path, held in before.items():
        if not re.fullmatch(command.adds_to, path):
            assert path in after and after[path] == held, path
        elif path.endswith("metrics.jsonl"):
            assert after[path].startswith(held)
    strangers = [path for path in after.keys() - before.keys() if not re.fullmatch(command.leaves, path)]
    assert strangers == []
    assert [path for path in after if re.search(r"\.[0-9a-f]{12}\.|/tmp\w{8}", path)] == []

    # The same command succeeds when the fault is gone. A run may have left its first checkpoint out for the next.
    first = r"runs/new/checkpoints/step-00000001(/.*)?"
    left_out = {path for path in expected if "tried again" in said and re.fullmatch(first, path)}
    code, said = run(command)
    assert code == 0, said
    finally_there = contents(world)
    # A file that a command finds in the cache is not noted there: nothing says that it came whole.
    notes = {path for path in expected if path.startswith("cache/") and path.endswith(".sha256")}
    assert finally_there.keys() | notes | left_out == expected.keys()
    for path, held in expected.items():
        if path in finally_there and not re.fullmatch(command.varies, path):
            assert finally_there[path] == held, path


@pytest.mark.parametrize("every_writer", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "place", "fault"), CASES)
def test_a_fault_loses_nothing_and_names_the_file(name, place, fault, every_writer, clean, new_world):
    operations, expected = clean(name)
    candidates = faults(operations, place, getattr(errno, fault))
    assert candidates, place
    chosen = CASES.index((name, place, fault)) % len(candidates)
    for each in candidates if every_writer else candidates[chosen : chosen + 1]:
        check(COMMANDS[name], each, new_world, expected)
