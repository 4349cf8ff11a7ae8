import hashlib

import pytest

from nmt.io import hashing


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 24])
def test_a_checksum_is_of_the_whole_file(tmp_path, monkeypatch, size):
    monkeypatch.setattr(hashing, "_BLOCK", 8)
    content = bytes(range(size))
    (tmp_path / "file").write_bytes(content)
    assert hashing.sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
