"""Nothing that is not ours is ever replaced: every output of every command, offered everything that may stand there.

A small world holds a run, a data set, bundles, a report, files of a user's and links to all of them. Each option that
takes a path to write is given each of them. The command writes its own thing, or fails with one clear message; either
way everything else is as it was, byte for byte.
"""

from __future__ import annotations

import os
import shutil
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from nmt.checkpoint.bundle import load_bundle, save_bundle
from nmt.cli.app import app
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import NmtError
from nmt.io.ownership import Kind, check_replaceable
from tests.convert.unexamined import examine_nothing
from tests.data.one_data_set import write_shards
from tests.kit.world import make_world
from tests.trees import contents

USERS = "mine.txt"
FOLDERS = {
    "folder": "folder of the user's",
    "run": "runs/run",
    "data": "sets/data",
    "data-and-file": "data and file",
    "bundle": "bundle",
    "average": "runs/run/average",
    "average-and-file": "average and file",
    "checkpoint": "runs/run/checkpoints/step-00000002",
    "checkpoints": "runs/run/checkpoints",
    "shards": "sets/data/shards",
    "of-another-toolkit": "of another toolkit",
    "parent-of-runs": "runs",
    "parent-of-sets": "sets",
}
FILES = {"file": USERS, "report": "page.html", "weights": "bundle/model.safetensors", "vocab": "sets/data/vocab.model"}
LINKED = ("folder", "run", "file", "report")
PLACES = (
    FOLDERS
    | FILES
    | {f"link-to-{name}": f"link to {name}" for name in LINKED}
    | {
        "new": "new",
        "empty": "empty",
        "current": ".",
        "above": "..",
        "below-file": f"{USERS}/new",
        "link-in-run": "runs/run/last",
    }
)


TRIED_ALWAYS = ("folder", "run", "file", "above", "link-to-folder")
TRIED_EVERYWHERE = ("average-checkpoints out", "report out")
"""One that writes a folder, and one that writes a file."""


def commands(group: Any = None, prefix: str = "") -> Iterator[tuple[str, Callable[..., None]]]:
    """Every command with the function behind it."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command.callback


def path_options() -> set[str]:
    """Every option and argument that takes a path."""
    return {
        f"{command} {name}"
        for command, function in commands()
        for name, hint in typing.get_type_hints(function).items()
        if Path in (hint, *typing.get_args(hint)) or "Path" in str(hint)
    }


READ = {
    f"{command} {name}"
    for command, names in {
        "prepare-data": "apart_from", "build-vocab": "vocab", "train": "config init_from resume",
        "adapt": "model general", "average-checkpoints": "run", "report": "runs",
        "translate": "model text input prefix glossary", "score-target": "model text input target", "inspect": "path",
        "synthesize": "mono model reference scored_by teacher_request",
        "import": "path source_spm target_spm check_text", "export": "model check_text",
        "score": "hypothesis reference source comet_model robustness", "compare": "a b reference source data",
        "serve": "models api_keys", "attention": "model input",
    }.items()
    for name in names.split()
}  # fmt: skip
"""What is only read from."""


@dataclass(frozen=True)
class Output:
    """Something that writes to a path it is given."""

    line: str = ""
    """Of a command; the path is put behind it."""
    call: Callable[[Path], object] | None = None
    """Instead of a command, a function of the Python API."""
    succeeds: tuple[str, ...] = ("new",)
    """Places that it may write to, beside the links to them; all others it must refuse."""
    adds: bool = False
    """It adds to folders, whatever they hold, and may leave what it has fetched."""
    beside: str = "nothing"
    """Where in the world it writes something else."""


def _save_again(path: Path) -> None:
    bundle = load_bundle(Path("bundle"))
    save_bundle(path, bundle.weights, bundle.config, bundle.vocab)


def _write_shards(path: Path) -> None:
    write_shards(path, VocabularyPair.load(Path("sets/data/vocab.model")), threads=1)


TRAIN = "train --data sets/data --config quick.yaml --out"
COMMANDS = {
    "average-checkpoints out": Output(
        "average-checkpoints runs/run --last 2 --out", succeeds=("new", "empty", "average")
    ),
    "train out": Output(TRAIN, succeeds=("new", "empty", "run")),
    "adapt out": Output(
        "adapt runs/run sets/data/train --set training.max_updates=1 --threads 1 --out", succeeds=("new",), adds=True
    ),
    "prepare-data out": Output(
        "prepare-data mirrored.yaml --force --jobs 1 --mirror mirror --cache cache --out",
        succeeds=("new", "empty", "data"),
        beside="cache",
    ),
    "prepare-data cache": Output(
        "prepare-data mirrored.yaml --jobs 1 --mirror mirror --out new-set --cache",
        succeeds=("new",),
        adds=True,
        beside="new-set",
    ),
    "score cache": Output(
        f"score --test-set wmt14/full --langpair en-de --offline {USERS} --cache", succeeds=(), adds=True
    ),
    "synthesize out": Output(
        "synthesize mirrored-en-de --mono input.txt --model bundle --forward --threads 1 --jobs 1 "
        "--valid mirror/text --test mirror/text --out",
        succeeds=("new", "empty"),
        beside="new.synthesis",
    ),
    "build-vocab data": Output("build-vocab --size 38 --threads 1 --force --data", succeeds=("data", "data-and-file")),
    "compare out": Output("compare input.txt other.txt --reference input.txt --out"),
    "import out": Output("import opus --out", succeeds=("new", "empty", "bundle")),
    "export out": Output("export imported --to marian --out", succeeds=("new", "empty")),
    "inspect out": Output("inspect bundle --out"),
    "report out": Output("report runs/run --out", succeeds=("new", "report")),
    # No place has a name that ends as a page or JSON does.
    "attention out": Output("attention --model bundle --threads 1 ba --out", succeeds=()),
    "translate output": Output(
        "translate --model bundle --threads 1 --input input.txt --output", beside=".new.nmt.json"
    ),
    "score-target output": Output(
        "score-target --model bundle --threads 1 --input input.txt --target input.txt --output", beside=".new.nmt.json"
    ),
}
FUNCTIONS = {
    "save_bundle": Output(call=_save_again, succeeds=("new", "empty", "bundle")),
    "write_shards": Output(call=_write_shards, succeeds=("data", "data-and-file")),
}


def test_every_option_that_takes_a_path_is_known():
    """A new one belongs into COMMANDS, if it is written to, or into READ."""
    assert path_options() == {*READ, *COMMANDS}


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Path:
    """The world as it is before each case."""
    world = tmp_path_factory.mktemp("replacing") / "world"
    make_world(world)
    shutil.copytree(world / "sets" / "data", world / "data and file")
    shutil.copytree(world / "runs/run/average", world / "average and file")
    for folder in ("runs/run", "data and file", "average and file", "folder of the user's", "runs", "sets", ""):
        (world / folder).mkdir(exist_ok=True)
        (world / folder / USERS).write_text(f"years of work in {folder}\n")
    (world / "folder of the user's" / "deep").mkdir()
    (world / "folder of the user's" / "deep" / "config.yaml").write_text("model: mine\n")
    (world / "of another toolkit").mkdir()
    (world / "of another toolkit" / "model.bin").write_text("a model from elsewhere")
    (world / "empty").mkdir()
    for name in LINKED:
        (world / f"link to {name}").symlink_to((FOLDERS | FILES)[name])
    return world


@pytest.fixture
def world(template, tmp_path, monkeypatch) -> Path:
    """A world of one's own, which is the current folder."""
    examine_nothing(monkeypatch)
    world = tmp_path / "world"
    shutil.copytree(template, world, symlinks=True)
    (tmp_path / USERS).write_text("above the world")
    monkeypatch.chdir(world)
    return world


def run(output: Output, path: str) -> str | None:
    """Write to a path; the message of the failure, if it fails as it should."""
    if output.call is not None:
        try:
            output.call(Path(path))
        except NmtError as error:
            return str(error)
        return None
    result = CliRunner().invoke(app, [*output.line.split(), path])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code in (0, 2), result.stderr
    if result.exit_code == 0:
        return None
    assert result.stderr.count("error: ") == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def cases() -> list:
    """Outputs and places. All outputs ask one function, so only two of them are tried everywhere."""
    return [
        pytest.param(output, place, id=f"{name}-{place}")
        for name, output in (COMMANDS | FUNCTIONS).items()
        for place in PLACES
        if name in TRIED_EVERYWHERE or place in (*TRIED_ALWAYS, *output.succeeds)
    ]


@pytest.mark.parametrize(("output", "place"), cases())
def test_nothing_that_is_not_ours_is_replaced(output, place, world):
    target = Path(os.path.realpath(PLACES[place]))
    before = contents(world.parent)
    message = run(output, PLACES[place])
    after = contents(world.parent)

    written = [target, world / output.beside]
    outside = {
        name: held
        for name, held in after.items()
        if not any((world.parent / name).is_relative_to(to) for to in written)
    }
    may_succeed = place.removeprefix("link-to-") in output.succeeds
    if output.adds:
        assert before.items() <= after.items()
        assert outside.keys() <= before.keys()
        assert message is None or not may_succeed
    elif may_succeed:
        assert message is None
        assert {name: before.get(name) for name in outside} == outside
        users = {name: held for name, held in before.items() if name.endswith(USERS)}
        assert users.items() <= after.items()
        assert place not in ("new", "empty") or contents(target) or target.is_file()
    else:
        assert message is not None
        assert after == before


def test_a_folder_that_everything_lies_in_is_refused():
    kind = Kind("a thing", lambda folder: True, is_folder=True)
    for path in (Path("/"), Path.cwd(), Path(".."), Path.cwd().parent):
        with pytest.raises(NmtError, match="current folder"):
            check_replaceable(path, kind)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("runs/run/average", "average-checkpoints runs/run"),
        ("runs/run/report.html", "report runs/run"),
        ("sets/data/vocab.model", "build-vocab --data sets/data"),
        ("sets/data/vocab.txt", "build-vocab --data sets/data"),
        ("sets/data/shards", "build-vocab --data sets/data"),
    ],
)
@pytest.mark.parametrize("is_folder", [True, False])
def test_what_a_user_put_in_the_place_of_an_output_stays(name, line, is_folder, world):
    path = world / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if name == "sets/data/vocab.model":  # so that nothing tells of one of ours
        shutil.rmtree(world / "sets/data/shards")
        (world / "sets/data/vocab.txt").unlink()
    if is_folder:
        path.mkdir()
    (path / USERS if is_folder else path).write_text("mine")
    before = contents(world)
    message = run(Output(line.rpartition(" ")[0]), line.rpartition(" ")[2])
    assert message is not None
    assert name in message
    assert contents(world) == before


def test_links_of_a_run_replace_no_file(world):
    (world / "runs/run/best").unlink()
    (world / "runs/run/best").write_text("mine")
    result = CliRunner().invoke(app, f"{TRAIN} runs/run --set training.max_updates=4".split())
    assert result.exit_code == 0, result.stderr
    assert (world / "runs/run/best").read_text() == "mine"
    assert "best" in result.stderr


def test_ranks_are_not_started_for_a_run_that_cannot_begin(world, monkeypatch):
    monkeypatch.setattr("nmt.training.ranks.launch.launch", lambda *arguments: pytest.fail("started"))
    before = contents(world)
    message = run(Output(TRAIN.replace(" --out", " --nproc 2 --out")), "sets/data")
    assert message is not None and "and is not a run that nmt wrote" in message
    assert contents(world) == before


def test_an_average_does_not_lie_among_the_checkpoints(world):
    before = contents(world)
    for path in ("runs/run/checkpoints/step-00000009", "runs/run/checkpoints/mean", "runs/run/best/mean"):
        message = run(COMMANDS["average-checkpoints out"], path)
        assert message is not None and "among the checkpoints" in message
    assert contents(world) == before


def test_a_checkpoint_with_a_file_of_the_users_is_not_pruned(world):
    (world / "runs/run/checkpoints/step-00000001" / USERS).write_text("why this one is good")
    keep = "--set training.max_updates=6 --set checkpoints.keep_last=1 --set checkpoints.keep_best=1"
    before = contents(world / "runs/run/checkpoints/step-00000001")
    result = CliRunner().invoke(app, f"{TRAIN} runs/run {keep}".split())
    assert result.exit_code == 0, result.stderr
    assert contents(world / "runs/run/checkpoints/step-00000001") == before
    assert not (world / "runs/run/checkpoints/step-00000003").exists()


def test_files_have_the_mode_of_the_umask(world):
    """So that colleagues can read a shared bundle."""
    before = os.umask(0o027)
    try:
        for name, path in (
            ("average-checkpoints out", "new/average"),
            ("train out", "new/run"),
            ("prepare-data out", "new/data"),
            ("report out", "new/page.html"),
        ):
            assert run(COMMANDS[name], path) is None
        assert run(COMMANDS["build-vocab data"], "new/data") is None
    finally:
        os.umask(before)
    written = [path for path in (world / "new").rglob("*") if not path.is_symlink()]
    assert any(path.name == "training.safetensors" for path in written)
    modes = {path: path.stat().st_mode & 0o777 for path in written}
    assert {path: mode for path, mode in modes.items() if mode != (0o750 if path.is_dir() else 0o640)} == {}
