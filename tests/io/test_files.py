"""Files and folders: whole or not there, and what is left by a process that dies meanwhile."""

import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nmt.errors import OutputError
from nmt.io import files
from nmt.io.files import (
    LockedFolder,
    linked_copy,
    locked_folders,
    put_back,
    replacing,
    replacing_folder,
    replacing_locked,
)
from nmt.io.ownership import Kind, check_replaceable, remove_own

LETTER = Kind("a letter", lambda path: path.read_text().startswith("Dear"))
BOX = Kind("a box", lambda folder: (folder / "label").is_file(), is_folder=True, holds=("label", "*.thing"))


def fill(folder: Path, label: str) -> None:
    with replacing_folder(folder, BOX) as temporary:
        (temporary / "label").write_text(label)
        (temporary / "a.thing").write_text(label)


def held(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_what_is_not_finished_leaves_the_old_one(tmp_path):
    fill(tmp_path / "box", "before")
    with pytest.raises(RuntimeError), replacing_folder(tmp_path / "box", BOX) as temporary:
        (temporary / "label").write_text("half")
        with replacing(tmp_path / "box" / "label") as stream:
            stream.write(b"half")
            raise RuntimeError
    assert held(tmp_path / "box") == {"label": "before", "a.thing": "before"}
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    with replacing(tmp_path / "link") as stream:
        stream.write(b"after")
    assert (tmp_path / "file").read_text() == "after"
    fill(tmp_path / "box", "1")
    (tmp_path / "link to box").symlink_to("box")
    fill(tmp_path / "link to box", "2")
    assert held(tmp_path / "box")["label"] == "2"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "link to box").is_symlink()


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_whenever_a_process_dies_the_old_folder_or_the_new_one_is_found_again(tmp_path, renames):
    box = tmp_path / "box"
    fill(box, "before")
    script = f"""
import os, pathlib
from tests.io.test_files import fill
rename, done = pathlib.Path.rename, []
def dying(path, to):
    if len(done) == {renames}:
        os._exit(9)
    done.append(to)
    return rename(path, to)
pathlib.Path.rename = dying
import nmt.io.files
nmt.io.files.remove_own = lambda *arguments: os._exit(9)
fill(pathlib.Path({str(box)!r}), "after")
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert box.exists() == (renames != 1)
    with pytest.raises(RuntimeError), replacing_folder(box, BOX):
        raise RuntimeError
    label = "after" if renames == 2 else "before"
    assert held(box) == {"label": label, "a.thing": label}
    assert [path.name for path in tmp_path.iterdir()] == ["box"]
    fill(box, "again")
    assert held(box) == {"label": "again", "a.thing": "again"}


def test_folders_are_put_back_where_nothing_took_their_place(tmp_path):
    for name in ("one", ".one.nmt.old", ".two.nmt.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "label").write_text(name)
    put_back(tmp_path)
    assert held(tmp_path / "one") == {"label": "one"}
    assert held(tmp_path / "two") == {"label": ".two.nmt.old"}


def test_a_file_that_came_meanwhile_is_not_lost(tmp_path):
    box = tmp_path / "box"
    fill(box, "before")
    with pytest.raises(OutputError, match=r"mine\.txt"), replacing_folder(box, BOX) as temporary:
        (temporary / "label").write_text("after")
        (box / "mine.txt").write_text("mine")
    assert held(box) == {"label": "before", "a.thing": "before", "mine.txt": "mine"}


def test_one_process_at_a_time_writes_a_folder(tmp_path):
    with replacing_folder(tmp_path / "box", BOX) as temporary:
        (temporary / "label").write_text("first")
        second = threading.Thread(target=fill, args=(tmp_path / "box", "second"))
        second.start()
        second.join(0.2)
        assert second.is_alive()
        assert held(temporary) == {"label": "first"}
    second.join()
    assert held(tmp_path / "box")["label"] == "second"


def test_only_what_is_of_a_kind_is_removed(tmp_path):
    """No link, no folder with a file of the user's, and no kind of folder that may hold anything."""
    fill(tmp_path / "box", "x")
    (tmp_path / "link").symlink_to("box")
    (tmp_path / "box" / "mine.txt").write_text("mine")
    anything = Kind("a drawer", lambda folder: True, is_folder=True)
    with pytest.raises(ValueError, match="a drawer"):
        remove_own(tmp_path / "box", anything)
    with pytest.raises(ValueError, match="a drawer"), replacing_folder(tmp_path / "box", anything):
        pass
    assert not remove_own(tmp_path / "box", BOX)
    assert sorted(held(tmp_path / "box")) == ["a.thing", "label", "mine.txt"]
    (tmp_path / "box" / "mine.txt").unlink()
    assert not remove_own(tmp_path / "link", BOX)
    assert sorted(held(tmp_path / "box")) == ["a.thing", "label"]
    assert remove_own(tmp_path / "box", BOX)
    assert remove_own(tmp_path / "box", BOX)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_folder_whose_removal_was_interrupted_is_removed(tmp_path, is_there):
    box, outgoing = tmp_path / "box", tmp_path / ".box.nmt.old"
    if is_there:
        fill(box, "after")
    outgoing.mkdir()
    (outgoing / "a.thing").write_text("before")  # the label, which tells that it is ours, is gone
    fill(box, "again")
    assert held(box) == {"label": "again", "a.thing": "again"}
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


def test_what_is_foreign_in_a_folder_whose_removal_was_interrupted_stays(tmp_path):
    outgoing = tmp_path / ".box.nmt.old"
    outgoing.mkdir()
    (outgoing / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"\.box\.nmt\.old.*Move it away"):
        fill(tmp_path / "box", "again")
    assert held(outgoing) == {"mine.txt": "mine"}


def test_the_rule(tmp_path):
    """What may stand in the place of a file, and of a folder."""
    (tmp_path / "letter").write_text("Dear reader")
    (tmp_path / "list").write_text("milk")
    fill(tmp_path / "box", "x")
    fill(tmp_path / "full", "x")
    (tmp_path / "full" / "cat.txt").touch()
    fill(tmp_path / "linked", "x")
    (tmp_path / "linked" / "b.thing").symlink_to(tmp_path / "list")
    fill(tmp_path / "nested", "x")
    (tmp_path / "nested" / "c.thing").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".lock").write_text("17 on host")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("letter", "none", "dangling", "none/none"):
        check_replaceable(tmp_path / name, LETTER)
    for name in ("box", "none", "empty", "dangling"):
        check_replaceable(tmp_path / name, BOX)
    for name, kind, what in (
        ("list", LETTER, "is a file, but not a letter that nmt wrote"),
        ("box", LETTER, "is a folder, but a letter is a file"),
        ("letter", BOX, "is a file, but a box is a folder"),
        ("full", BOX, r"is a box, but also holds cat\.txt"),
        ("linked", BOX, r"also holds b\.thing"),
        ("nested", BOX, r"also holds c\.thing"),
        ("run", BOX, r"holds metrics\.jsonl, and is not a box"),
        (".", BOX, "holds box, dangling, empty and 6 more, and is not a box"),
    ):
        with pytest.raises(OutputError, match=what) as error:
            check_replaceable(tmp_path / name, kind)
        assert str(tmp_path / name) in str(error.value)
        assert "--out" in str(error.value)


def fill_all(folders: list[Path], label: str) -> None:
    with locked_folders(folders, BOX) as locked, replacing_locked(locked) as temporaries:
        for temporary in temporaries:
            (temporary / "label").write_text(label)


SHELF = Kind("a shelf", lambda folder: (folder / "label").is_file(), True, holds=("label",), folders=(("box*", BOX),))


def fill_shelf(folder: Path, label: str) -> None:
    with replacing_folder(folder, SHELF) as temporary:
        (temporary / "label").write_text(label)
        (temporary / "box 1").mkdir()
        (temporary / "box 1" / "a.thing").write_text(label)


def test_a_folder_within_a_folder_is_replaced_with_it(tmp_path):
    shelf = tmp_path / "shelf"
    fill_shelf(shelf, "before")
    (shelf / "box 1" / "a.thing").chmod(0o600)
    (shelf / "box 2").mkdir()
    fill_shelf(shelf, "after")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        *("shelf", "shelf/box 1", "shelf/box 1/a.thing", "shelf/label")
    ]
    assert (shelf / "box 1" / "a.thing").read_text() == "after"
    assert (shelf / "box 1" / "a.thing").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["box 1/mine.txt", "drawer/a.thing", "box 1/box 2/a.thing"])
def test_what_is_foreign_in_a_folder_within_a_folder_stays(tmp_path, name):
    shelf = tmp_path / "shelf"
    fill_shelf(shelf, "before")
    (shelf / name).parent.mkdir(exist_ok=True)
    (shelf / name).write_text("mine")
    assert not remove_own(shelf, SHELF)
    foreign = name if name == "box 1/mine.txt" else name.rpartition("/")[0]
    with pytest.raises(OutputError, match=rf"is a shelf, but also holds {foreign}\..*or move these files away"):
        fill_shelf(shelf, "after")
    assert (shelf / name).read_text() == "mine"


def test_a_file_that_is_carried_over_by_a_link_keeps_its_mode(tmp_path):
    box = tmp_path / "box"
    fill(box, "x")
    (box / "a.thing").chmod(0o600)
    with replacing_folder(box, BOX) as temporary:
        (temporary / "label").write_text("y")
        linked_copy(box / "a.thing", temporary / "a.thing")
    assert held(box) == {"label": "y", "a.thing": "x"}
    assert (box / "a.thing").stat().st_mode & 0o777 == 0o600


def test_without_waiting_a_folder_that_another_process_writes_is_refused(tmp_path):
    with replacing_folder(tmp_path / "box", BOX) as temporary:
        (temporary / "label").write_text("first")
        with (
            pytest.raises(OutputError, match="box: is being written by another process"),
            LockedFolder.lock(tmp_path / "box", BOX, wait=False),
        ):
            pass


def test_folders_that_were_made_for_one_that_was_not_are_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(RuntimeError), replacing_folder(tmp_path / "mine" / "a" / "b" / "box", BOX):
        raise RuntimeError
    assert list((tmp_path / "mine").iterdir()) == []
    fill(tmp_path / "mine" / "a" / "box", "first")
    assert [path.name for path in (tmp_path / "mine" / "a").iterdir()] == ["box"]


def test_several_folders_are_replaced_together(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    fill(tmp_path / "b", "before")
    fill_all(folders, "after")
    assert [held(folder) for folder in folders] == [{"label": "after"}] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_if_one_of_several_folders_cannot_be_replaced_all_stay(tmp_path, monkeypatch, failing):
    folders = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    fill(tmp_path / "a", "before a")
    fill(tmp_path / "b", "before b")
    put = LockedFolder.put

    def put_or_fail(folder: LockedFolder, temporary: Path) -> None:
        if folder.path == folders[failing]:
            raise OSError(5, "input/output error", str(folder.path))
        put(folder, temporary)

    monkeypatch.setattr(LockedFolder, "put", put_or_fail)
    with pytest.raises(files.WriteError, match=f"{folders[failing].name}: "):
        fill_all(folders, "after")
    assert held(tmp_path / "a")["label"] == "before a"
    assert held(tmp_path / "b")["label"] == "before b"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_if_one_of_several_folders_may_not_be_replaced_all_stay(tmp_path):
    fill(tmp_path / "a", "before")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"mine\.txt"):
        fill_all([tmp_path / "a", tmp_path / "b"], "after")
    assert held(tmp_path / "a")["label"] == "before"
    assert held(tmp_path / "b") == {"mine.txt": "mine"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_what_the_user_made_private_stays_private(tmp_path):
    page, box = tmp_path / "page", tmp_path / "box"
    for text in ("first", "second"):
        with replacing(page) as stream:
            stream.write(text.encode())
        fill(box, text)
        if text == "first":
            for path, mode in ((page, 0o600), (box, 0o700), (box / "label", 0o600), (box / "a.thing", 0o644)):
                path.chmod(mode)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (page, box, box / "label", box / "a.thing")]
    assert modes == [0o600, 0o700, 0o600, 0o644]
    assert held(box) == {"label": "second", "a.thing": "second"}
