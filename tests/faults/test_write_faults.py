"""Every command, every place where it writes, every fault of a disk: the error names the file, what stood stands, and
the same command succeeds once the fault is gone.

The table is commands × faults × places. In each case one writer of the command fails, another one from case to case.
Every command meets every fault and every place in ``make test``, and all pairs of them in ``make test-slow``, which
also lets every writer fail in every case.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import sacrebleu.dataset
import yaml
from typer.testing import CliRunner

from nmt.bench import training_speed, translating_speed
from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.cli.app import app
from nmt.convert.converting import import_model
from nmt.convert.ctranslate2.writing import HOLDS, write_ctranslate2
from nmt.io.files import replacing_folder
from nmt.io.ownership import Kind
from nmt.io.writing import WriteError
from tests.corpora.test_testsets import packed
from tests.faults.disk import Disk, Fault, Operation, mounted
from tests.test_replacing import MARIAN, commands, examine_nothing
from tests.training.conftest import SETTINGS, make_data_set
from tests.trees import contents

FAULTS = ("ENOSPC", "EDQUOT", "EIO", "EFBIG", "EACCES", "EROFS")
PLACES = ("first write", "middle write", "last write", "flush", "rename", "make")
NO_STRANGERS = r"(?!)"


@dataclass(frozen=True)
class Command:
    """A command that writes."""

    line: str
    leaves: str = NO_STRANGERS
    """Pattern of the names that it may leave behind when it fails: parts that it resumes from."""
    adds_to: str = NO_STRANGERS
    """Pattern of the files that it resumes and so may change when it fails."""
    warns_of: str = NO_STRANGERS
    """Pattern of the writers whose failure is no reason to end: it warns instead."""
    varies: str = NO_STRANGERS
    """Pattern of the files that differ from run to run."""
    measures: bool = False
    """Takes seconds when nothing fails, and leaves nothing: it is not run again after each fault."""


COMMANDS = {
    "prepare-data": Command(
        "prepare-data mirrored.yaml --jobs 1 --mirror mirror --cache cache --out sets/text", leaves="cache(/.*)?"
    ),
    "build-vocab": Command("build-vocab --data sets/data --size 38 --threads 1 --force"),
    "build-vocab (joint)": Command("build-vocab --data sets/data --data sets/text --size 60 --threads 1 --force"),
    "train": Command(
        "train --data sets/data --config quick.yaml --out runs/run --set training.max_updates=3",
        adds_to=r"runs/run/(metrics\.jsonl|config\.yaml|data\.json|manifests/.*|last|best)",
        leaves=r"runs/run/checkpoints/step-\d+(/.*)?",
        warns_of=r"runs/run(/(last|best|\.(last|best)\..*))?",
        varies=r"runs/run/(metrics\.jsonl|checkpoints/step-00000003/(training|checksums)\.json)",
    ),
    "train (new run)": Command(
        "train --data sets/data --config quick.yaml --out runs/new",
        leaves="runs/new(/.*)?",
        warns_of=r"runs/new(/(last|best|\.(last|best)\..*))?",
        varies=r"runs/new/(metrics\.jsonl|checkpoints/.*/(training|checksums)\.json)",
    ),
    "average-checkpoints": Command("average-checkpoints runs/run --last 1"),
    "translate": Command(
        "translate --model bundle --threads 1 --input input.txt --output out.txt --max-extra-length 3 "
        "--batch-tokens 16",
        leaves=r"out\.txt\.partial(\.json)?|\.out\.txt\.nmt\.json",
    ),
    "score": Command(
        "score --test-set wmt14/full --langpair en-de --offline --mirror mirror --cache cache hypotheses.txt",
        leaves="cache(/.*)?",
    ),
    "compare": Command("compare other.txt input.txt --reference input.txt --out compared.html"),
    "report": Command("report runs/run --out page.html", varies=r"page\.html"),
    "import": Command("import opus --out again"),
    "export": Command("export imported --to marian --out for-marian"),
    "inspect": Command("inspect bundle --html chain.html"),
    "attention": Command("attention --model bundle --threads 1 ba lu --out weights.json"),
    "bench train": Command(
        "bench train --data sets/data --preset tiny --rounds 1 --updates 1 --update-tokens 100", measures=True
    ),
    "bench translate": Command(
        "bench translate --data sets/data --preset tiny --rounds 1 --sentences 1", measures=True
    ),
    "export (Python)": Command(""),
}
NEVER_MEASURED = ("flush", "rename")
"""Places that benchmarks never come to: their files are temporary."""
TABLE = [
    (name, fault, place)
    for name, command in COMMANDS.items()
    for place in PLACES
    for fault in FAULTS
    if not (command.measures and place in NEVER_MEASURED)
]


def is_quick(command: str, fault: str, place: str) -> bool:
    """A sixth of the table, with every pair of command, fault and place."""
    return (list(COMMANDS).index(command) + FAULTS.index(fault)) % len(PLACES) == PLACES.index(place)


def test_the_table_has_every_command_fault_and_place():
    # The first two write no file, and the third writes as translate does.
    writing = {name for name, _ in commands()} - {"serve", "doctor", "score-target"}
    assert writing == {name.partition(" (")[0] for name in COMMANDS}
    benchmarks = sum(command.measures for command in COMMANDS.values())
    assert len(TABLE) == (len(COMMANDS) * len(PLACES) - benchmarks * len(NEVER_MEASURED)) * len(FAULTS) == 588
    quick = [case for case in TABLE if is_quick(*case)]
    assert len(quick) == len(TABLE) // len(PLACES)
    assert {(c, p) for c, _, p in quick} == {(c, p) for c, _, p in TABLE}
    assert {(f, p) for _, f, p in quick} == {(f, p) for _, f, p in TABLE}
    writes = {name for name, command in COMMANDS.items() if not command.measures}
    assert {(c, f) for c, f, _ in quick if c in writes} == {(c, f) for c, f, _ in TABLE if c in writes}


@pytest.fixture(scope="session")  # as long as _CLEAN: a worker may leave this file and come back
def template(tmp_path_factory) -> Path:
    """The world as it is before each case."""
    world = tmp_path_factory.mktemp("faults") / "world"
    make_data_set(world / "sets" / "data", pairs=60)
    settings = yaml.safe_load(SETTINGS)
    settings["training"]["max_updates"] = 2
    settings["validation"] |= {"every_updates": 1, "bleu": False}
    settings["checkpoints"]["every_updates"] = 1
    (world / "quick.yaml").write_text(yaml.safe_dump(settings))
    (world / "input.txt").write_text("ba do ki\nlu me\n\nno pa ru se ti\n" * 3)
    (world / "other.txt").write_text("ba do ki\nlu\n\nno ru pa se\n" * 3)
    (world / "hypotheses.txt").write_text("Eine Zeile .\nFisch\nDas Ende\n")
    (world / "tmp").mkdir()
    write_recipe(world, dedup=False)
    before = Path.cwd()
    os.chdir(world)
    try:
        for line in (
            "train --data sets/data --config quick.yaml --out runs/run",
            "average-checkpoints runs/run --last 2",
            "report runs/run --out page.html",
            COMMANDS["prepare-data"].line,
        ):
            result = CliRunner().invoke(app, line.split())
            assert result.exit_code == 0, result.stderr
        trained = load_bundle(Path("runs/run/average"))
        save_bundle(Path("bundle"), trained.weights, trained.config, trained.vocab)
    finally:
        os.chdir(before)
    shutil.rmtree(world / "cache")
    write_recipe(world, dedup=True)
    (world / "mirror" / "test-full.tgz").write_bytes(packed())
    shutil.copytree(MARIAN, world / "opus")
    with pytest.MonkeyPatch.context() as monkeypatch:
        examine_nothing(monkeypatch)
        import_model(world / "opus", world / "imported")
    return world


def write_recipe(world: Path, *, dedup: bool) -> None:
    """A recipe whose downloads lie in a mirror."""
    languages = {"en": "en", "de": "de"}
    (world / "mirror").mkdir(exist_ok=True)
    for language in languages:
        lines = "".join(f"{language} {number}\n" for number in range(30))
        (world / "mirror" / f"text.{language}").write_text(lines)
    corpus = {"kind": "text", "name": "text", "files": languages}
    recipe = {
        "name": "mirrored", "source_lang": "en", "target_lang": "de",
        "downloads": {language: {"url": f"https://example.invalid/text.{language}"} for language in languages},
        "train": [corpus], "valid": [corpus], "test": [corpus], "filters": {"leakage": "count", "dedup": dedup},
    }  # fmt: skip
    (world / "mirrored.yaml").write_text(yaml.safe_dump(recipe))


@pytest.fixture
def new_world(template, monkeypatch) -> Callable[[], Path]:
    """Make a new world, always in the same place, which becomes the current folder."""
    dataset = sacrebleu.dataset.DATASETS["wmt14/full"]
    examine_nothing(monkeypatch)
    monkeypatch.setattr(dataset, "data", ["https://example.invalid/test-full.tgz"])
    monkeypatch.setattr(dataset, "md5", [hashlib.md5((template / "mirror/test-full.tgz").read_bytes()).hexdigest()])

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


def run(name: str) -> tuple[int, str]:
    """Run a command; its exit code and what it says on stderr."""
    if name == "export (Python)":
        try:
            with replacing_folder(Path("exported"), Kind("an export", lambda path: True, True, HOLDS)) as folder:
                write_ctranslate2(load_bundle(Path("bundle")), folder)
        except WriteError as error:
            return 2, f"error: {error}"
        return 0, ""
    result = CliRunner().invoke(app, COMMANDS[name].line.split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stderr


class _MeasuringError(Exception):
    """A benchmark came as far as its measuring, which is not what is tested here."""


_CLEAN: dict[str, tuple[list[Operation], dict[str, bytes | str | None]]] = {}


@pytest.fixture
def clean(new_world, monkeypatch) -> Callable[[str], tuple[list[Operation], dict[str, bytes | str | None]]]:
    """What a command does and makes where nothing fails; found out once."""

    def run_clean(name: str) -> tuple[list[Operation], dict[str, bytes | str | None]]:
        if name == "export (Python)" and importlib.util.find_spec("ctranslate2") is None:
            pytest.skip("CTranslate2 is not installed")
        if COMMANDS[name].measures:

            def end(*arguments):
                raise _MeasuringError

            speeds = {"train": training_speed, "translate": translating_speed}
            monkeypatch.setattr(speeds[name.removeprefix("bench ")], "contestants", end)
        if name not in _CLEAN:
            world = new_world()
            with mounted(Disk(world)) as disk:
                assert run_or_measure(name)[0] == 0
            _CLEAN[name] = disk.operations, contents(world)
        return _CLEAN[name]

    return run_clean


def run_or_measure(name: str) -> tuple[int, str]:
    try:
        return run(name)
    except _MeasuringError:
        return 0, ""


def faults(operations: list[Operation], place: str, code: int) -> list[Fault]:
    """The faults of a place, one for each writer that comes to it; a command may have none."""
    kind = place.removeprefix("first ").removeprefix("middle ").removeprefix("last ")
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
    is_of_a_library = name.startswith(("sets/data/shards", "sets/text", "tmp", "exported", "cache"))
    return {name, str(Path(name).parent)} if is_of_a_library else {name}


def check(name: str, fault: Fault, new_world: Callable[[], Path], expected: dict[str, bytes | str | None]) -> None:
    """Let a command fail, and then succeed."""
    command, world = COMMANDS[name], new_world()
    before = contents(world)
    with mounted(Disk(world, fault)) as disk:
        code, said = run_or_measure(name)
    assert disk.refused, f"{fault} did not come, but {disk.operations}"
    after = contents(world)

    # The error names the file.
    writer = fault.operation.writer
    if re.fullmatch(command.warns_of, writer) and code == 0:
        assert "could not be updated" in said
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

    # The same command succeeds when the fault is gone.
    if command.measures:
        return
    code, said = run_or_measure(name)
    assert code == 0, said
    finally_there = contents(world)
    # A file that a command finds in the cache is not noted there: nothing says that it came whole.
    notes = {path for path in expected if path.startswith("cache/") and path.endswith(".sha256")}
    assert finally_there.keys() | notes == expected.keys()
    for path, held in expected.items():
        if path in finally_there and not re.fullmatch(command.varies, path):
            assert finally_there[path] == held, path


@pytest.mark.parametrize(
    ("name", "fault", "place"),
    [pytest.param(*case, marks=[] if is_quick(*case) else pytest.mark.slow) for case in TABLE],
)
def test_a_fault_loses_nothing_and_names_the_file(name, fault, place, clean, new_world):
    operations, expected = clean(name)
    candidates = faults(operations, place, getattr(errno, fault))
    assert candidates, place
    chosen = candidates[(len(FAULTS) // 2 * PLACES.index(place) + FAULTS.index(fault) // 2) % len(candidates)]
    check(name, chosen, new_world, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fault", "place"), TABLE)
def test_every_writer(name, fault, place, clean, new_world):
    operations, expected = clean(name)
    for chosen in faults(operations, place, getattr(errno, fault)):
        check(name, chosen, new_world, expected)
