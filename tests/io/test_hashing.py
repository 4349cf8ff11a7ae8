import hashlib
from pathlib import Path

import pytest

from nmt.io import hashing


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 24])
def test_a_checksum_is_of_the_whole_file(tmp_path, monkeypatch, size):
    monkeypatch.setattr(hashing, "_BLOCK", 8)
    content = bytes(range(size))
    (tmp_path / "file").write_bytes(content)
    assert hashing.sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="there is no /proc")
def test_a_file_of_a_device_is_not_read_to_an_end_that_it_may_not_have():
    assert hashing.sha256_of(Path("/proc/self/status")) == hashlib.sha256().hexdigest()
