"""A power cut at any moment leaves files, folders, shards, checkpoints and outputs whole or absent.

See ``tests/power_cut.py`` for what a cut may leave.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nmt.checkpoint.bundle_files import damage
from nmt.io.files import replacing, replacing_folder
from nmt.io.ownership import Kind
from tests.kit.world import run_nmt, write_settings
from tests.power_cut import ZEROS, power_cuts, recorded
from tests.training.conftest import make_data_set

Contents = dict[str, bytes]


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
    write_settings(world / "quick.yaml", 4, keep_last=2, keep_best=1)
    (world / "input.txt").write_text("ba do\nki\nlu me no\n")
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


BOX = Kind("a box", lambda folder: (folder / "label").is_file(), is_folder=True, holds=("label", "*.thing"))


def test_files_and_folders_are_whole_or_absent(tmp_path):
    """So are all that are written through these functions: pages, data sets, averages, imports, exports."""
    world = tmp_path / "world"
    world.mkdir()

    def write(content: bytes) -> Contents:
        with replacing(world / "file") as stream:
            stream.write(content)
        with replacing_folder(world / "box", BOX) as box:
            (box / "label").write_bytes(content)
            (box / "a.thing").write_bytes(content)
        return contents(world)

    for earlier in (b"before", None):
        before = write(earlier) if earlier else {}
        with recorded(world) as record:
            after = write(b"after")
        found = set()
        for state in power_cuts(record, tmp_path / f"cuts of {earlier}"):
            here = contents(state)
            assert here.get("file") in (before.get("file"), after["file"])
            box = {name: content for name, content in here.items() if name.startswith("box/")}
            versions = [{name: held[name] for name in held if name.startswith("box/")} for held in (before, after)]
            assert box in versions or not (state / "box").exists()
            if earlier and not box:  # it is whole where the next command finds it
                assert contents(state / ".box.nmt.old") == contents_of(versions[0])
            found.add((here.get("file") == b"after", box == versions[1]))
        assert {(True, True), (False, False)} <= found
        shutil.rmtree(world)
        world.mkdir()


def contents_of(box: Contents) -> Contents:
    return {name.removeprefix("box/"): content for name, content in box.items()}


def test_shards_are_whole_or_absent(cuts, world):
    before = contents(world / "data")
    vocab = ["vocab.model", "vocab.txt"]

    def work() -> None:
        run_nmt("build-vocab", "--data", "data", "--size", "36", "--threads", "1")

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


def test_checkpoints_are_whole_or_absent(cuts, world):
    def work() -> None:
        run_nmt("train", "--data", "data", "--config", "quick.yaml", "--out", "runs/x")

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


def test_outputs_are_whole_or_absent(cuts, world):
    run_nmt("train", "--data", "data", "--config", "quick.yaml", "--out", "runs/x")

    def work() -> None:
        run_nmt("translate", "--model", "runs/x/last", "--threads", "1", "-i", "input.txt", "-o", "output.txt")

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
