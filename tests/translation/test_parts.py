"""A file translated in parts: every line is in one part, and the parts are joined in order when all are there."""

import json

import pytest

from nmt.errors import ConfigError, DataError
from nmt.translation.lineage import recorded_output
from nmt.translation.parts import Part, join_parts, refuse_different_parts
from nmt.translation.resuming import OutputFile
from tests.records import made

RECORD = made()


def write(whole, number: int, content: bytes, *, count: int = 3, record=RECORD) -> OutputFile:
    part = Part(number, count)
    output = part.output_file(whole)
    with output.growing(part.record(record)) as (stream, _):
        stream.write(content)
    return output


@pytest.mark.parametrize("total", [0, 1, 7, 16, 100, 3_003])
@pytest.mark.parametrize("count", [1, 3, 16])
def test_every_line_is_in_one_part_and_parts_are_of_almost_equal_size(total, count):
    parts = [Part(number, count).lines(total) for number in range(1, count + 1)]
    assert [line for part in parts for line in part] == list(range(total))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["3", "0/4", "5/4", "1/0", "-1/4", "a/4", "1/4/5", "", "1/9999999", "٣/٤"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(ConfigError, match=r"give K/N: the part, from 1 to N"):
        Part.parsed(text)


def test_names_of_parts_are_in_order(tmp_path):
    names = [Part(number, 16).output_file(tmp_path / "out.de").path.name for number in range(1, 17)]
    assert names == sorted(names)
    assert names[2] == "out.de.03-of-16"


def test_the_last_part_joins_all_in_order_and_removes_them(tmp_path):
    whole = OutputFile(tmp_path / "out")
    write(whole.path, 3, b"e\nf\n")
    write(whole.path, 1, b"a\n")
    assert join_parts(whole, RECORD, 3) == [2]
    assert not whole.path.exists()
    write(whole.path, 2, b"")
    assert join_parts(whole, RECORD, 3) == []
    assert whole.path.read_bytes() == b"a\ne\nf\n"
    assert sorted(tmp_path.iterdir()) == [whole.record, whole.path]
    # Again, after a process was killed before it removed the parts.
    write(whole.path, 2, b"")
    half_removed = write(whole.path, 3, b"e\nf\n")
    half_removed.path.unlink()
    assert join_parts(whole, RECORD, 3) == []
    assert sorted(tmp_path.iterdir()) == [whole.record, whole.path]
    assert whole.path.read_bytes() == b"a\ne\nf\n"
    # What was edited meanwhile is not ours any more.
    edited = write(whole.path, 1, b"a\n")
    edited.path.write_bytes(b"A\n")
    assert join_parts(whole, RECORD, 3) == []
    assert edited.path.read_bytes() == b"A\n"


def test_what_is_joined_is_recorded_as_one_command_records_it(tmp_path):
    parts, undivided = OutputFile(tmp_path / "out"), OutputFile(tmp_path / "other")
    for number, content in ((1, b"a\n"), (2, b"b\n")):
        write(parts.path, number, content, count=2)
    assert join_parts(parts, RECORD, 2) == []
    with undivided.growing(RECORD) as (stream, _):
        stream.write(b"a\nb\n")
    assert json.loads(parts.record.read_text()) == json.loads(undivided.record.read_text())
    assert recorded_output(parts.path).made_from == RECORD.made_from


def test_parts_that_were_made_differently_are_not_joined(tmp_path):
    whole = OutputFile(tmp_path / "out")
    write(whole.path, 1, b"a\n")
    other = write(whole.path, 2, b"b\n", count=2, record=made(beam=5))
    write(whole.path, 1, b"a\n", count=2)
    with pytest.raises(DataError, match=r"out\.2-of-2: was made differently: beam \(5 then, 4 now\)"):
        join_parts(whole, RECORD, 2)
    assert other.path.exists()
    assert not whole.path.exists()


def test_a_part_that_was_changed_is_not_joined(tmp_path):
    whole = OutputFile(tmp_path / "out")
    changed = write(whole.path, 1, b"a\n", count=2)
    write(whole.path, 2, b"b\n", count=2)
    changed.path.write_bytes(b"A\n")
    with pytest.raises(DataError, match=r"out\.1-of-2: was changed since .* move it away"):
        join_parts(whole, RECORD, 2)
    assert changed.path.read_bytes() == b"A\n"
    assert not whole.path.exists()


def test_an_interrupted_translation_without_parts_is_kept(tmp_path):
    whole = OutputFile(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt), whole.growing(RECORD) as (stream, _):
        stream.write(b"hours of work\n")
        raise KeyboardInterrupt
    for number in (1, 2):
        write(whole.path, number, b"a\n", count=2)
    with pytest.raises(DataError, match=r"out\.partial: holds the finished part of a translation without --part"):
        join_parts(whole, RECORD, 2)
    assert whole.partial.read_bytes() == b"hours of work\n"


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_part_that_differs_from_others_is_refused_before_it_is_translated(tmp_path, is_complete):
    whole = OutputFile(tmp_path / "out")
    if is_complete:
        write(whole.path, 2, b"a\n")
    else:
        with pytest.raises(KeyboardInterrupt), Part(2, 3).output_file(whole.path).growing(made(part="2/3")):
            (tmp_path / "out.2-of-3.partial").write_bytes(b"a\n")
            raise KeyboardInterrupt
    refuse_different_parts(whole, RECORD, 3)
    with pytest.raises(DataError, match=r"out\.2-of-3(\.partial)?: was made differently: beam \(4 then, 5 now\)"):
        refuse_different_parts(whole, made(beam=5), 3)


def test_parts_that_were_made_differently_stay_beside_a_complete_output(tmp_path):
    whole = OutputFile(tmp_path / "out")
    with whole.growing(RECORD) as (stream, _):
        stream.write(b"a\nb\n")
    other = write(whole.path, 2, b"b\n", count=2, record=made(beam=5))
    own = write(whole.path, 1, b"a\n", count=2)
    assert join_parts(whole, RECORD, 2) == []
    assert other.path.exists()
    assert not own.path.exists()
