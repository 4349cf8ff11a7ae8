"""An output goes on where it was, and never with what another model, input or setting gives."""

import hashlib
import json

import pytest

from nmt.decoding.resuming import Begun, begun, growing, made_with
from nmt.errors import DataError

LINES = [f"line {number}" for number in range(10)]
RECORD = {"input": "abc", "beam": 4}


def interrupted(output, content: bytes, record=RECORD) -> None:
    with pytest.raises(KeyboardInterrupt), growing(output, record) as stream:
        stream.write(content)
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("content", "output_lines", "expected"),
    [
        (b"", 1, Begun(0, 0)),
        (b"a\nb\n", 1, Begun(0, 0)),  # a window is not whole yet
        (b"a\nb\nc\n", 1, Begun(3, 6)),
        (b"a\nb\nc\nd\ne\nhalf a li", 1, Begun(3, 6)),
        (b"1\n2\n" * 5, 2, Begun(3, 12)),
        (b"a\n" * 10, 1, Begun(10, 20)),  # the last window is as long as what is left
    ],
)
def test_goes_on_behind_whole_windows_of_whole_lines(tmp_path, content, output_lines, expected):
    output = tmp_path / "out"
    interrupted(output, content)
    found = begun(output, RECORD, LINES, window=3, output_lines=output_lines)
    assert found == expected
    with growing(output, RECORD, keep=found.bytes) as stream:
        stream.write(b"rest\n")
    assert output.read_bytes() == content[: expected.bytes] + b"rest\n"
    assert list(tmp_path.iterdir()) == [output]


def test_a_model_is_told_by_its_files_with_and_without_recorded_checksums(tmp_path):
    files = {"model.safetensors": b"weights", "vocab.model": b"pieces", "config.yaml": b"model: {}"}
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    hashed = made_with([tmp_path], {}, {})
    (tmp_path / "checksums.json").write_text(json.dumps(checksums))
    assert hashed == made_with([tmp_path], {}, {}) == {"model": [checksums]}


def test_nothing_begun_is_the_beginning(tmp_path):
    assert begun(tmp_path / "out", RECORD, LINES, window=3) == Begun(0, 0)


def test_another_setting_or_input_is_refused_by_name(tmp_path):
    output = tmp_path / "out"
    interrupted(output, b"a\nb\nc\n")
    with pytest.raises(DataError, match=r"beam \(4 then, 5 now\).*--resume"):
        begun(output, RECORD | {"beam": 5}, LINES, window=3)
    with pytest.raises(DataError, match="made otherwise: input"):
        begun(output, RECORD | {"input": "other"}, LINES, window=3)


@pytest.mark.parametrize("content", [None, "{", json.dumps([1])])
def test_what_cannot_be_told_is_refused(tmp_path, content):
    output, record = tmp_path / "out", tmp_path / "out.partial.json"
    interrupted(output, b"a\nb\nc\n")
    if content is None:
        record.unlink()
    else:
        record.write_text(content)
    with pytest.raises(DataError, match="--resume"):
        begun(output, RECORD, LINES, window=3)


def test_an_output_that_cannot_be_resumed_leaves_no_record_of_an_earlier_one(tmp_path):
    output = tmp_path / "out"
    interrupted(output, b"a\nb\nc\n")
    interrupted(output, b"x\ny\nz\n", record=None)
    with pytest.raises(DataError, match="no telling"):
        begun(output, RECORD, LINES, window=3)
