"""A power cut at any moment leaves shards, data sets, checkpoints, averages and outputs whole or absent.

See ``tests/power_cut.py`` for what a cut may leave.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nmt.checkpoint.bundle_files import damage
from nmt.cli.app import app
from tests.power_cut import ZEROS, power_cuts, recorded
from tests.training.conftest import SETTINGS, make_data_set

Contents = dict[str, bytes]


def run(*arguments: str | Path) -> None:
    """Run a command in this process, which is the one that is recorded."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.stderr or repr(result.exception)


def contents(folder: Path) -> Contents:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def visible(folder: Path) -> Contents:
    """Without what a command left under a hidden name: the next one that writes there removes it."""
    return {name: content for name, content in contents(folder).items() if not name.startswith(".")}


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A data set with shards, a run with checkpoints, and lines to translate."""
    world = tmp_path_factory.mktemp("power") / "world"
    make_data_set(world / "data", pairs=60)
    settings = yaml.safe_load(SETTINGS)
    settings["training"]["max_updates"] = 4
    settings["validation"] |= {"every_updates": 2, "bleu": False}
    settings["checkpoints"] = {"every_updates": 1, "keep_last": 2, "keep_best": 1}
    (world / "quick.yaml").write_text(yaml.safe_dump(settings))
    (world / "input.txt").write_text("ba do\nki\nlu me no\n")
    for language, word in (("en", "house"), ("de", "Haus")):
        for split, first in (("train", 0), ("valid", 100), ("test", 200)):
            lines = (f"{word} {number} {number * 7}\n" for number in range(first, first + 90))
            (world / f"{split}.{language}").write_text("".join(lines))
    return world


@pytest.fixture
def world(template, tmp_path, monkeypatch) -> Path:
    shutil.copytree(template, tmp_path / "world")
    monkeypatch.chdir(tmp_path / "world")
    return tmp_path / "world"


@pytest.fixture
def cuts(world, tmp_path, monkeypatch) -> Callable[..., Iterator[Path]]:
    """Run something in the world; then serve what a power cut may have left of it, as the current folder."""

    def serve(work: Callable[[], object], *, states: int = 150) -> Iterator[Path]:
        with recorded(world) as record:
            work()
        count = 0
        for folder in power_cuts(record, tmp_path / "cuts", states=states):
            monkeypatch.chdir(folder)
            yield folder
            monkeypatch.chdir(world)
            shutil.rmtree(folder)
            count += 1
        assert count > 5

    return serve


def test_what_is_not_flushed_is_lost(cuts, world):
    """The harness itself: a file that is renamed before it is flushed is empty or zeroed in some states."""

    def careless() -> None:
        Path("new").write_text("content")
        Path("new").rename("input.txt")

    def serve() -> Iterator[bytes]:
        with recorded(world) as record:
            careless()
        yield from (Path(folder / "input.txt").read_bytes() for folder in power_cuts(record, world.parent / "own"))

    assert set(serve()) == {b"ba do\nki\nlu me no\n", b"", ZEROS}


def test_shards_are_whole_or_absent(cuts, world):
    before = contents(world / "data")
    vocab = ["vocab.model", "vocab.txt"]

    def work() -> None:
        run("build-vocab", "--data", "data", "--size", "36", "--threads", "1")

    states = cuts(work)
    found = set()
    for number, state in enumerate(states):
        after = contents(world / "data")
        shards = contents(state / "data" / "shards")
        versions = [shards_of(before), shards_of(after)]
        assert shards in versions or not (state / "data" / "shards").exists()
        for name in vocab:
            assert (state / "data" / name).read_bytes() in (before[name], after[name])
        found.add(versions.index(shards) if shards else "absent")
        if number % 15 == 0:
            work()
            assert without_times(visible(state / "data")) == without_times(after)
    assert {0, 1} <= found


def without_times(held: Contents) -> Contents:
    """Without the times at which the encoded text was written, which the index notes."""
    index = re.sub(rb'"modified_ns": \d+', b"", held["shards/index.json"])
    return held | {"shards/index.json": index}


def shards_of(held: Contents) -> Contents:
    return {name.removeprefix("shards/"): content for name, content in held.items() if name.startswith("shards/")}


def text_of(held: Contents) -> Contents:
    """Without the manifest, which names the files that were read by their full paths."""
    return {name: content for name, content in held.items() if name != "manifest.json"}


@pytest.mark.parametrize("earlier", [None, "own"], ids=["new", "replaced"])
def test_data_sets_are_whole_or_absent(cuts, world, earlier):
    prefixes = [part for split in ("train", "valid", "test") for part in (f"--{split}", split)]
    languages = ("--source-lang", "en", "--target-lang", "de")

    def prepare(*more: str) -> None:
        run("prepare-data", "own", *languages, *prefixes, "--jobs", "1", "--out", "sets/own", *more)

    before: Contents = {}
    if earlier:
        prepare("--no-dedup")
        before = contents(world / "sets/own")
    found = set()
    for number, state in enumerate(cuts(lambda: prepare("--max-length", "100"))):
        after = contents(world / "sets/own")
        here = contents(state / "sets/own")
        assert here in (before, after) or not (state / "sets/own").exists()
        found.add([before, after].index(here) if here else "absent")
        if earlier and not here:
            # The earlier data set is whole where the next command finds it.
            assert contents(state / "sets/.own.nmt.old") == before
        if number % 15 == 0:
            prepare("--max-length", "100")
            assert text_of(contents(state / "sets/own")) == text_of(after)
            assert sorted(path.name for path in (state / "sets").iterdir()) == ["own"]
    assert 1 in found


def test_checkpoints_are_whole_or_absent(cuts, world):
    def work() -> None:
        run("train", "--data", "data", "--config", "quick.yaml", "--out", "runs/x")

    newest = 0
    for state in cuts(work, states=250):
        there = sorted((state / "runs/x/checkpoints").glob("step-*"))
        assert [damage(path) for path in there] == [None] * len(there)
        for name in ("last", "best"):
            link = state / "runs/x" / name
            if link.is_symlink():  # it never leads to a checkpoint that is gone
                assert damage(link.resolve()) is None
        newest = max([newest, *(int(path.name[5:]) for path in there)])
    assert newest == 4


def test_averages_are_whole_or_absent(cuts, world):
    run("train", "--data", "data", "--config", "quick.yaml", "--out", "runs/x")
    run("average-checkpoints", "runs/x", "--last", "2")
    before = contents(world / "runs/x/average")
    found = set()
    for state in cuts(lambda: run("average-checkpoints", "runs/x", "--last", "1")):
        here, after = contents(state / "runs/x/average"), contents(world / "runs/x/average")
        assert here in (before, after) or not (state / "runs/x/average").exists()
        found.add(here == after)
    assert found == {True, False}


def test_outputs_are_whole_or_absent(cuts, world):
    run("train", "--data", "data", "--config", "quick.yaml", "--out", "runs/x")

    def work() -> None:
        run("translate", "--model", "runs/x/last", "--threads", "1", "-i", "input.txt", "-o", "output.txt")

    found = set()
    for number, state in enumerate(cuts(work)):
        after = (world / "output.txt").read_bytes()
        here = (state / "output.txt").read_bytes() if (state / "output.txt").exists() else None
        assert here in (None, after)
        found.add(here)
        if number % 10 == 0:
            work()
            assert (state / "output.txt").read_bytes() == after
    assert found == {None, after}


def test_pages_are_whole_or_absent(cuts, world):
    run("train", "--data", "data", "--config", "quick.yaml", "--out", "runs/x")
    for state in cuts(lambda: run("report", "runs/x", "--out", "page.html")):
        here = (state / "page.html").read_bytes() if (state / "page.html").exists() else None
        assert here in (None, (world / "page.html").read_bytes())
