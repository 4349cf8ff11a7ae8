"""Files and folders: whole or not there."""

import pytest

from nmt.files import replacing


def test_a_file_that_is_not_finished_leaves_the_old_one(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), replacing(path) as stream:
        stream.write(b"half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
