"""A file translated in parts: every line is in one part, and the parts are joined in order when all are there."""

import pytest

from nmt.errors import ConfigError, DataError
from nmt.translation.parts import Part, joined
from nmt.translation.resuming import OutputFile

RECORD = {"input": "abc", "beam": 4}


def write(whole, number: int, content: bytes, *, count: int = 3, record=RECORD) -> OutputFile:
    part = Part(number, count)
    output = OutputFile(part.output(whole))
    with output.growing(part.record(record)) as stream:
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
    with pytest.raises(ConfigError, match=r"for example 3/16"):
        Part.parsed(text)


def test_names_of_parts_are_in_order(tmp_path):
    names = [Part(number, 16).output(tmp_path / "out.de").name for number in range(1, 17)]
    assert names == sorted(names)
    assert names[2] == "out.de.03-of-16"


def test_the_last_part_joins_all_in_order_and_removes_them(tmp_path):
    whole = OutputFile(tmp_path / "out")
    write(whole.path, 3, b"e\nf\n")
    write(whole.path, 1, b"a\n")
    assert joined(whole, RECORD, 3) == [2]
    assert not whole.path.exists()
    write(whole.path, 2, b"")
    assert joined(whole, RECORD, 3) == []
    assert whole.path.read_bytes() == b"a\ne\nf\n"
    assert sorted(tmp_path.iterdir()) == [whole.record, whole.path]
    # Again, after a process was killed before it removed the parts.
    left = write(whole.path, 2, b"")
    assert joined(whole, RECORD, 3) == []
    assert not left.path.exists()
    assert whole.path.read_bytes() == b"a\ne\nf\n"


def test_parts_that_were_made_differently_are_not_joined(tmp_path):
    whole = OutputFile(tmp_path / "out")
    write(whole.path, 1, b"a\n")
    other = write(whole.path, 2, b"b\n", count=2, record=RECORD | {"beam": 5})
    write(whole.path, 1, b"a\n", count=2)
    with pytest.raises(DataError, match=r"out\.2-of-2: was made differently: beam \(5 then, 4 now\)"):
        joined(whole, RECORD, 2)
    assert other.path.exists()
    assert not whole.path.exists()


def test_a_part_that_was_changed_is_missing(tmp_path):
    whole = OutputFile(tmp_path / "out")
    changed = write(whole.path, 1, b"a\n", count=2)
    write(whole.path, 2, b"b\n", count=2)
    changed.path.write_bytes(b"A\n")
    assert joined(whole, RECORD, 2) == [1]
    assert changed.path.read_bytes() == b"A\n"
