"""Errors of writing: they name the file, and never end in a traceback or in another name."""

import ast
import errno
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nmt.io.files
from nmt.cli.app import app
from nmt.io.files import completing, linked_copy, replacing, restoring
from nmt.io.writing import (
    WriteError,
    append,
    final_path,
    open_to_write,
    scratch_folder,
    temporary_path,
    temporary_paths,
    write_file,
)

FAULTS = ("ENOSPC", "EFBIG", "EDQUOT", "EIO", "ESTALE", "EACCES", "EROFS")


def failing(name: str):
    def fail(*arguments, **options):
        raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))

    return fail


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_whatever_call_fails_names_the_file_and_keeps_the_earlier_one(tmp_path, monkeypatch, fault, call):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(WriteError) as error, monkeypatch.context() as patch:
        patch.setattr(os, call, failing(fault))
        with replacing(path) as stream:
            stream.write(b"after")
    reason = os.strerror(getattr(errno, fault))
    assert str(error.value).startswith(f"{path}: cannot be written ({reason}). ")
    assert str(error.value).endswith("Then run the same command again.")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with replacing(path) as stream:
        stream.write(b"after")
    assert path.read_text() == "after"


@pytest.mark.parametrize("length", [240, 300], ids=["with its ending", "alone"])
def test_a_name_that_is_too_long_is_named(tmp_path, length):
    path = tmp_path / ("x" * length)
    with pytest.raises(WriteError) as error, replacing(path):
        pass
    assert str(error.value).startswith(f"{path}: cannot be written (File name too long). Then run")


def test_an_error_of_what_the_body_reads_is_not_the_files(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "out.txt") as stream:
        stream.write((tmp_path / "nothing").read_bytes())
    assert list(tmp_path.iterdir()) == []


def test_what_was_finished_of_long_work_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    with pytest.raises(WriteError) as error, monkeypatch.context() as patch, completing(path) as stream:
        stream.write(b"first\n")
        stream.flush()
        patch.setattr(os, "write", failing("EDQUOT"))
        stream.write(b"second\n")
    assert f"{path}.partial: cannot be written (Disk quota exceeded)." in str(error.value)
    assert (tmp_path / "out.txt.partial").read_text() == "first\n"


def test_appending_is_all_or_nothing(tmp_path, monkeypatch):
    path, write = tmp_path / "records.jsonl", os.write
    append(path, b"first\n")
    room = [4]

    def nearly_full(descriptor, content):
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, memoryview(content)[: room.pop()])

    with pytest.raises(WriteError, match="No space left"), monkeypatch.context() as patch:
        patch.setattr(os, "write", nearly_full)
        append(path, b"second\n")
    assert path.read_text() == "first\n"
    append(path, b"third\n")
    assert path.read_text() == "first\nthird\n"


def test_files_that_belong_together_are_restored(tmp_path):
    one, other, new = (tmp_path / name for name in ("one", "other", "new"))
    one.write_text("1")
    other.write_text("2")
    (tmp_path / "link").symlink_to("other")
    with pytest.raises(RuntimeError), restoring(one, tmp_path / "link", new):
        for path in (one, tmp_path / "link", new):
            with replacing(path) as stream:
                stream.write(b"changed")
        raise RuntimeError
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"one": "1", "other": "2", "link": "2"}
    assert (tmp_path / "link").is_symlink()
    with restoring(one, new), replacing(one) as stream:
        stream.write(b"changed")
    assert one.read_text() == "changed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "one", "other"]


def test_a_copy_that_fails_halfway_does_not_replace_the_file(tmp_path, monkeypatch):
    """On file systems without hard links, such as exFAT, files are copied."""

    def no_link(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_bytes(bytes(1_000_000))
    write = os.write

    def nearly_full(descriptor, content):
        if len(content) > 1 and os.fstat(descriptor).st_size > 100_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", no_link)
        patch.setattr(os, "write", nearly_full)
        with pytest.raises(WriteError, match="No space left"), restoring(one, other):
            pytest.fail("the body was run")
        taken = tmp_path / "taken"
        taken.write_text("not ours")
        with pytest.raises(WriteError, match="File exists"):
            linked_copy(one, taken)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "other", "taken"}
    assert (one.read_text(), other.read_bytes(), taken.read_text()) == ("1", bytes(1_000_000), "not ours")


def test_temporary_names_do_not_meet_even_with_one_process_id(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in every container
    path = tmp_path / "out.txt"
    with replacing(path) as first, replacing(path) as second:
        first.write(b"first")
        second.write(b"second")
        assert len(temporary_paths(path)) == 2
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("mine")
    path = tmp_path / "out.txt"
    for name in (".out.txt.guessed.tmp", "out.txt.partial"):
        (tmp_path / name).symlink_to("precious")
    monkeypatch.setattr(nmt.io.files, "temporary_path", lambda path: path.with_name(f".{path.name}.guessed.tmp"))
    with pytest.raises(WriteError, match="File exists"), replacing(path) as stream:
        stream.write(b"stolen")
    with pytest.raises(WriteError, match="Remove the symbolic link"), completing(path) as stream:
        stream.write(b"stolen")
    with pytest.raises(WriteError, match="File exists"):
        write_file(tmp_path / "out.txt.partial", b"stolen")
    assert (tmp_path / "precious").read_text() == "mine"


def test_only_names_of_ours_are_taken_for_temporary(tmp_path):
    ours = temporary_path(tmp_path / "out.txt")
    assert ours != temporary_path(tmp_path / "out.txt")
    for name in (ours.name, ".out.txt.mine.tmp", ".other.txt.0123456789ab.tmp", "out.txt.0123456789ab.tmp"):
        (tmp_path / name).touch()
    assert temporary_paths(tmp_path / "out.txt") == [ours]
    assert temporary_paths(tmp_path / "nowhere" / "out.txt") == []
    assert temporary_paths(ours / "out.txt") == [], "of a file, not a folder"


@pytest.mark.parametrize("place", ["scratch", "out"])
def test_only_errors_in_the_scratch_folder_advise_another_one(place, tmp_path, monkeypatch):
    """Even where the output lies in the folder of scratch folders."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "out").mkdir()
    with pytest.raises(WriteError) as caught, scratch_folder() as scratch:
        write_file((scratch if place == "scratch" else tmp_path / "out") / "missing" / "file", b"")
    assert ("TMPDIR" in str(caught.value)) == (place == "scratch")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_scratch_folder_that_cannot_be_made_advises_another_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(WriteError, match=r"missing: cannot be written.*TMPDIR"), scratch_folder():
        pass


def test_an_error_that_only_closing_brings_names_the_file(tmp_path, monkeypatch):
    """As on a network file system, which may tell of a quota only then."""
    stream = open_to_write(tmp_path / "out.txt", "xb")
    stream.write(b"text")
    monkeypatch.setattr(os, "write", failing("EDQUOT"))
    with pytest.raises(WriteError, match=r"out\.txt: cannot be written \(Disk quota exceeded\)"):
        stream.close()
    assert stream.closed


def test_a_fault_that_names_no_file_is_an_error_of_standard_output_only_where_that_fails(monkeypatch):
    monkeypatch.setattr("nmt.reports.run_report.write_run_report", failing("EDQUOT"))
    result = CliRunner().invoke(app, ["report", "run"])
    assert result.exit_code == 2
    assert result.stderr.strip() == f"error: a file that the system does not name: {os.strerror(errno.EDQUOT)}."

    def listed():
        monkeypatch.setattr(sys.stdout, "write", failing("ENOSPC"))
        return ["toy-en-de"]

    monkeypatch.setattr("nmt.corpora.recipe.builtin_names", listed)
    result = CliRunner().invoke(app, ["prepare-data", "--list"])
    assert result.exit_code == 2
    assert result.stderr.strip() == f"error: standard output: {os.strerror(errno.ENOSPC)}."


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("nmt.reports.run_report.write_run_report", failing("EINVAL"))
    assert isinstance(CliRunner().invoke(app, ["report", "run"]).exception, OSError)


WRITERS = {"machine/packages.py", "translation/streams.py"}
"""Modules that may ask the system to write by themselves: they open pipes and devices."""
METHODS = ("write_text", "write_bytes", "copyfile", "copy2", "copytree", "tofile")


def test_every_other_module_writes_through_them():
    sources = Path(nmt.__file__).parent
    found = {
        f"{path.relative_to(sources).as_posix()}:{node.lineno}"
        for path in sources.rglob("*.py")
        if path.relative_to(sources).as_posix() not in WRITERS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and is_write(node)
    }
    assert found == set()


def is_write(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr in METHODS:
        return True
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    constants = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    modes = [set(mode) for mode in constants if isinstance(mode, str)]
    return name == "open" and any(mode <= set("rwxabt+") and mode & set("wxa+") for mode in modes)


@pytest.mark.parametrize(
    ("path", "final"),
    [
        ("a/out.txt", "a/out.txt"),
        ("a/.out.txt.0123456789ab.tmp", "a/out.txt"),
        ("a/.run.0123456789ab.tmp/.x.ab0123456789.tmp", "a/run/x"),
        (".run.nmt.old/x", "run/x"),
        (".run.nmt.lock", "run"),
        ("a/.run.0123456789ab.scratch/seen/0.u64", "a/run"),
        ("a/.run.0123456789ab.scratch", "a/run"),
        ("a/b.scratch/c", "a/b.scratch/c"),
        ("a/.out.txt.mine.tmp", "a/.out.txt.mine.tmp"),
    ],
)
def test_an_error_names_the_final_path(path, final):
    assert final_path(Path(path)) == Path(final)
    error = WriteError(path, "why", code=errno.ENOSPC)
    assert (
        str(error)
        == f"{final}: cannot be written (why). Free space on that file system. Then run the same command again."
    )
    error.advise("Ask for more.")
    assert str(error) == f"{final}: cannot be written (why). Free space on that file system. Ask for more."
