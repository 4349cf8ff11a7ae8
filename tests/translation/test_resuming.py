"""An output resumes, never with what another model, input or setting gives, and never over what is not ours."""

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from nmt.errors import DataError
from nmt.io.input_files import InputFiles
from nmt.io.locking import exclusive
from nmt.io.writing import temporary_path
from nmt.translation.lineage import translation_record
from nmt.translation.resuming import Begun, OutputFile
from tests.records import made

LINES = [f"line {number}" for number in range(10)]
RECORD = made()


def interrupted(output, content: bytes, record=RECORD, *, windows: Sequence[int] = ()) -> None:
    """An output of which lines were written in windows, before more of a content was written that no journal notes."""
    lines = content.splitlines(keepends=True)
    with pytest.raises(KeyboardInterrupt), OutputFile(output).growing(record) as (stream, note):
        done = 0
        for size in windows:
            stream.writelines(lines[done : done + size])
            done += size
            note(done, done)
        stream.writelines(lines[done:])
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("content", "windows", "expected"),
    [
        (b"a\nb\n", (), Begun(0, 0, 0)),  # the first window is not whole yet
        (b"a\nb\nc\n", (3,), Begun(3, 3, 6)),
        (b"a\nb\nc\nd\ne\nhalf a li", (3,), Begun(3, 3, 6)),
        (b"a\n" * 10, (3, 3, 3, 1), Begun(10, 10, 20)),
    ],
)
def test_goes_on_behind_what_the_journal_notes(tmp_path, content, windows, expected):
    output = tmp_path / "out"
    interrupted(output, content, windows=windows)
    file = OutputFile(output)
    with file.claimed():
        found = file.begun(RECORD)
        assert found == expected
        with file.growing(RECORD, after=found) as (stream, _):
            assert file.begun(RECORD) == expected  # a resumed output that is killed at once has lost nothing
            stream.write(b"rest\n")
    assert output.read_bytes() == content[: expected.bytes] + b"rest\n"
    assert sorted(tmp_path.iterdir()) == [file.record, output]
    assert file.is_up_to_date(RECORD)


def test_a_window_counts_when_it_is_on_disk(tmp_path, monkeypatch):
    """A power cut may leave the journal without what it says, if that was not flushed before."""
    synced, fsync = [], os.fsync

    def noting(number):
        synced.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        fsync(number)

    monkeypatch.setattr(os, "fsync", noting)
    interrupted(tmp_path / "out", b"a\nb\n", windows=(2,))
    assert synced.index(str(tmp_path / "out.partial")) > 0
    assert any("out.partial.json" in name for name in synced[synced.index(str(tmp_path / "out.partial")) + 1 :])


@pytest.mark.parametrize(
    "written",
    [
        {"lines": 3},
        {"lines": 3, "entries": 3, "bytes": 7},
        {"lines": 3, "entries": 3, "bytes": -1},
        5,
        None,
    ],
)
def test_a_part_that_is_not_as_its_journal_says_is_left_as_it_is(tmp_path, written):
    output = tmp_path / "out"
    interrupted(output, b"a\nb\nc\n", windows=(3,))
    record = OutputFile(output).partial_record
    record.write_text(json.dumps(json.loads(record.read_text()) | {"written": written}))
    files = contents(tmp_path)
    with pytest.raises(DataError, match=r"out\.partial\.json is missing or damaged.*--fresh"), claimed(output):
        pass
    assert contents(tmp_path) == files


@pytest.mark.parametrize("edit", ["lines", "entries", "bytes", "text", "shorter"])
def test_a_part_or_journal_that_was_edited_is_left_as_it_is(tmp_path, edit):
    output = OutputFile(tmp_path / "out")
    interrupted(output.path, b"a\nb\nc\nd\n", windows=(2, 1))
    values = json.loads(output.partial_record.read_text())
    if edit in values["written"]:
        values["written"][edit] += 1
        output.partial_record.write_text(json.dumps(values))
    else:
        output.partial.write_bytes(b"a\nB\nc\nd\n" if edit == "text" else b"a\nb\n")
    files = contents(tmp_path)
    with pytest.raises(DataError, match="or one of the two was changed since"), claimed(output.path):
        pass
    assert contents(tmp_path) == files


def test_a_model_is_told_by_its_files_with_and_without_recorded_checksums(tmp_path):
    files = {"model.safetensors": b"weights", "vocab.model": b"pieces", "config.yaml": b"model: {}"}
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    hashed = translation_record(Path("out"), [tmp_path], {}, {})
    (tmp_path / "checksums.json").write_text(json.dumps(checksums))
    assert hashed == translation_record(Path("out"), [tmp_path], {}, {})
    assert [part.files for part in hashed.made_from] == [checksums]


def complete(output, content: bytes = b"a\nb\n", record=RECORD) -> OutputFile:
    file = OutputFile(output)
    with file.claimed(), file.growing(record) as (stream, _):
        stream.write(content)
    return file


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_nothing_begun_is_the_beginning(tmp_path):
    assert OutputFile(tmp_path / "out").begun(RECORD) == Begun()
    assert not OutputFile(tmp_path / "out").is_up_to_date(RECORD)


def test_the_recorded_precision_is_that_of_the_output_or_its_part(tmp_path):
    output = tmp_path / "out"
    assert OutputFile(output).precision is None
    interrupted(output, b"a\n", made(precision="bf16"))
    assert OutputFile(output).precision == "bf16"
    complete(output, record=made(precision="fp32"))
    assert OutputFile(output).precision == "fp32"
    output.unlink()
    assert OutputFile(output).precision is None
    complete(tmp_path / "other", record=made(precision="other"))
    assert OutputFile(tmp_path / "other").precision is None


def test_where_a_part_cannot_be_opened_the_error_says_so(tmp_path, monkeypatch):
    def fail(path, keep=0):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("nmt.translation.resuming.completing", fail)
    with pytest.raises(PermissionError), OutputFile(tmp_path / "out").growing(RECORD):
        pass
    assert contents(tmp_path) == {}


def test_fresh_starts_at_once_take_different_names(tmp_path):
    file = OutputFile(tmp_path / "out")
    with file.claimed_free() as first, file.claimed_free() as second:
        assert [first.path, second.path] == [file.path, tmp_path / "out-2"]
    assert contents(tmp_path) == {}


def test_a_name_that_another_process_takes_meanwhile_is_left_to_it(tmp_path, monkeypatch):
    def late(lock, *, wait):
        (tmp_path / "out").write_text("theirs")  # it was free a moment before
        return exclusive(lock, wait=wait)

    monkeypatch.setattr("nmt.translation.resuming.exclusive", late)
    with OutputFile(tmp_path / "out").claimed_free() as claimed:
        assert claimed.path == tmp_path / "out-2"


def test_nothing_is_left_of_a_try_that_wrote_nothing(tmp_path):
    interrupted(tmp_path / "out", b"")
    assert list(tmp_path.iterdir()) == []


def test_another_setting_or_input_is_refused_by_name(tmp_path):
    output = tmp_path / "out"
    interrupted(output, b"a\nb\nc\n")
    with pytest.raises(DataError, match=r"beam \(4 then, 5 now\).*--fresh to start over in .*out-2"):
        OutputFile(output).begun(made(beam=5))
    with pytest.raises(DataError, match="made differently: input"):
        OutputFile(output).begun(made(input="other"))


def test_a_file_whose_name_is_no_text_is_recorded(tmp_path):
    source = tmp_path / os.fsdecode(b"\xff")
    source.write_text("a\n")
    [part] = translation_record(Path("out"), [], {"input": source}, {}).made_from
    assert part.path == f"{tmp_path}/\\udcff"


def test_lines_that_were_valid_are_the_same_if_invalid_ones_are_replaced(tmp_path):
    strict, lenient = RECORD, made(invalid_utf8="replace")
    interrupted(tmp_path / "out", b"a\nb\nc\n", strict, windows=(3,))
    assert OutputFile(tmp_path / "out").begun(lenient).lines == 3
    interrupted(tmp_path / "other", b"a\nb\nc\n", lenient)
    with pytest.raises(DataError, match=r"invalid_utf8 \(replace then, default now\)"):
        OutputFile(tmp_path / "other").begun(strict)
    assert complete(tmp_path / "whole", record=strict).is_up_to_date(lenient)


def test_a_complete_output_is_up_to_date_or_refused(tmp_path):
    file = complete(tmp_path / "out.txt")
    before = contents(tmp_path)
    with file.claimed():
        assert file.is_up_to_date(RECORD)
        with pytest.raises(DataError, match=r"beam \(4 then, 5 now\).*--fresh to start over in .*out-2\.txt"):
            file.is_up_to_date(made(beam=5))
    assert contents(tmp_path) == before


def test_half_a_record_of_a_killed_process_is_removed(tmp_path):
    file = complete(tmp_path / "out.txt")
    before = contents(tmp_path)
    for path in (file.partial_record, file.record):
        temporary_path(path).write_text('{"half of')
    with file.claimed():
        pass
    assert contents(tmp_path) == before


def test_what_was_deleted_is_made_again(tmp_path):
    file = complete(tmp_path / "out")
    file.path.unlink()
    assert not file.is_taken
    with file.claimed():
        assert not file.is_up_to_date(made(beam=5))
    assert complete(tmp_path / "out", b"new\n", made(beam=5)).is_up_to_date(made(beam=5))


@pytest.mark.parametrize("changed", [b"a\n", b"a\nB\n", b""])
def test_what_was_changed_since_is_no_more_ours(tmp_path, changed):
    file = complete(tmp_path / "out")
    file.path.write_bytes(changed)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=r"did not write it, or it was changed.*--fresh"), file.claimed():
        pass
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["out", "out.partial", "out.partial.json", ".out.nmt.json"])
@pytest.mark.parametrize("content", [b"", b"of a user\n", b"[1]", b'{"beam": 4}'])
def test_what_is_not_ours_is_left_as_it_is(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"left as it is.*--fresh to start over in .*out-2"), claimed(tmp_path / "out"):
        pass
    assert contents(tmp_path) == {name: content}
    assert OutputFile(tmp_path / "out").first_free().path == tmp_path / "out-2"


def test_missing_folders_of_an_output_are_made_and_removed_if_they_stay_empty(tmp_path):
    output = tmp_path / "new" / "folder" / "out"
    for claim in (OutputFile(output).claimed, OutputFile(output).claimed_free):
        with claim():
            assert output.parent.is_dir()
        assert not output.parent.parent.exists()
    with claimed(output):
        output.write_text("ba\n")
    assert output.read_text() == "ba\n"


def claimed(output) -> contextlib.AbstractContextManager[None]:
    return OutputFile(output).claimed()


def test_a_link_to_nothing_is_left_as_it_is(tmp_path):
    (tmp_path / "out").symlink_to("nowhere")
    with pytest.raises(DataError, match="link to nothing"), claimed(tmp_path / "out"):
        pass
    assert (tmp_path / "out").is_symlink()


@pytest.mark.parametrize("content", [None, b"{", b"[1]"])
def test_a_part_without_its_record_is_left_as_it_is(tmp_path, content):
    output, record = tmp_path / "out", tmp_path / "out.partial.json"
    interrupted(output, b"a\nb\nc\n")
    if content is None:
        record.unlink()
    else:
        record.write_bytes(content)
    before = contents(tmp_path)
    with pytest.raises(DataError, match=r"missing or damaged.*--fresh"), claimed(output):
        pass
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("before", "now"), [(None, "abc"), ("abc", None), (None, None)])
@pytest.mark.parametrize("is_complete", [False, True])
def test_an_input_that_cannot_be_read_again_is_never_taken_for_the_same(tmp_path, before, now, is_complete):
    output = tmp_path / "out"
    (complete if is_complete else interrupted)(output, b"a\nb\nc\n", made(input=before))
    files = contents(tmp_path)
    file = OutputFile(output)
    with pytest.raises(DataError, match=r"cannot be compared.*--fresh"), file.claimed():
        file.is_up_to_date(made(input=now))
        file.begun(made(input=now))
    assert contents(tmp_path) == files


def test_what_another_program_wrote_meanwhile_is_left_as_it_is(tmp_path):
    file = OutputFile(tmp_path / "out")
    with (
        pytest.raises(DataError, match="another program wrote it"),
        file.claimed(),
        file.growing(RECORD) as (stream, note),
    ):
        stream.write(b"a\nb\nc\n")
        note(3, 3)
        file.path.write_text("of a user")
    assert file.path.read_text() == "of a user"
    file.path.unlink()
    with file.claimed():
        assert file.begun(RECORD) == Begun(3, 3, 6)


def test_a_claimed_output_is_refused_to_others_and_leaves_no_lock(tmp_path):
    output = tmp_path / "out"
    with claimed(output), pytest.raises(DataError, match="another process is writing it"), claimed(output):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["record", "output"])
def test_killed_at_the_very_end_it_is_ours_all_the_same(tmp_path, moment):
    """As if killed just before the complete output takes its name, or just after."""
    file = OutputFile(tmp_path / "out")
    whole = b"".join(f"{line}\n".encode() for line in LINES)
    interrupted(file.path, whole, windows=(10,))
    left = contents(tmp_path)
    complete(file.path, whole)
    record = file.record.read_bytes()
    if moment == "record":
        file.path.unlink()
        for name, content in left.items():
            (tmp_path / name).write_bytes(content)
        with file.claimed():
            assert not file.is_up_to_date(RECORD)
            found = file.begun(RECORD)
            assert found == Begun(10, 10, len(whole))
            with file.growing(RECORD, after=found):
                pass
    else:
        file.partial_record.write_bytes(left["out.partial.json"])
    with file.claimed():
        assert file.is_up_to_date(RECORD)
    assert sorted(tmp_path.iterdir()) == [file.record, file.path]
    assert (file.path.read_bytes(), file.record.read_bytes()) == (whole, record)


def shrink(path):
    os.truncate(path, 2)


def replace_by_another(path):
    path.with_name("new").write_text("a\nb\nX\n")
    path.with_name("new").rename(path)


def edit_and_put_the_time_back(path):
    before = path.stat()
    path.write_text("a\nb\nX\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [shrink, replace_by_another, edit_and_put_the_time_back, Path.unlink])
def test_an_input_that_changes_while_it_is_read_gives_no_complete_output(tmp_path, change):
    source, output = tmp_path / "in", OutputFile(tmp_path / "out")
    source.write_text("a\nb\nc\n")
    inputs, record = InputFiles.of({"input": source}), translation_record(output.path, [], {"input": source}, {})
    message = r"in: changed while it was read\. .*out was not completed; .* is in .*out\.partial\..*--fresh"
    with pytest.raises(DataError, match=message), output.growing(record, inputs=inputs) as (stream, _):
        stream.write(b"A\n")
        change(source)
    assert output.partial.read_bytes() == b"A\n"
    assert not output.path.exists()
    assert not output.record.exists()
    # Not even the former input resumes it: nobody knows which lines were read from which version.
    source.write_text("a\nb\nc\n")
    with pytest.raises(DataError, match="made differently: input"):
        output.begun(translation_record(output.path, [], {"input": source}, {}))


def test_an_input_with_a_new_time_but_the_same_content_has_not_changed(tmp_path):
    source, output = tmp_path / "in", OutputFile(tmp_path / "out")
    source.write_text("a\n")
    inputs, record = InputFiles.of({"input": source}), translation_record(output.path, [], {"input": source}, {})
    with output.growing(record, inputs=inputs) as (stream, _):
        stream.write(b"A\n")
        os.utime(source, (1, 1))
    assert output.path.read_bytes() == b"A\n"
