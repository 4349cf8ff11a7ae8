"""Sets of hashes on disk against Python's own sets."""

import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora.hashes import SeenHashes, contains, hash_lines, hash_set, merge_sorted
from nmt.io.writing import WriteError


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=12))
def test_first_times_are_those_of_a_set(tmp_path_factory, chunks):
    folder = tmp_path_factory.mktemp("seen")
    seen, oracle = SeenHashes(folder), set()
    for chunk in chunks:
        expected = []
        for value in chunk:
            expected.append(value not in oracle)
            oracle.add(value)
        assert seen.add(np.array(chunk, dtype=np.uint64)).tolist() == expected


def test_runs_stay_few_and_old_files_go(tmp_path):
    seen = SeenHashes(tmp_path)
    for start in range(0, 100_000, 1000):
        assert seen.add(np.arange(start, start + 1000, dtype=np.uint64)).all()
    files = list(tmp_path.iterdir())
    assert len(files) <= 8
    assert sum(file.stat().st_size for file in files) == 8 * 100_000
    assert not seen.add(np.array([0, 99_999, 54_321], dtype=np.uint64)).any()


def test_runs_are_read_only(tmp_path):
    """To write to a mapped file for which the disk has no room would end the process."""
    seen = SeenHashes(tmp_path)
    for start in (0, 10, 30):
        seen.add(np.arange(start, start + 10, dtype=np.uint64))
    assert [run.flags.writeable for _, run in seen._runs] == [False] * len(seen._runs)


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=30), max_size=5), st.integers(1, 7))
def test_merged_arrays_are_sorted_in_small_pieces(values, block):
    parts = [np.array(sorted(part), dtype=np.uint64) for part in values]
    pieces = list(merge_sorted(parts, block))
    assert [value for piece in pieces for value in piece.tolist()] == sorted(value for part in values for value in part)
    assert all(0 < len(piece) <= block * len(parts) for piece in pieces)


def test_a_write_that_fails_is_an_error_with_the_files_name(tmp_path):
    seen = SeenHashes(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, hard))
    try:
        with pytest.raises(WriteError, match=r"0\.u64: cannot be written \(File too large\).*make room"):
            seen.add(np.arange(10, dtype=np.uint64))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_hash_by_their_content():
    hashes = hash_lines(["a", "b", "a", ""])
    assert hashes.dtype == np.uint64
    assert hashes[0] == hashes[2]
    assert len(set(hashes.tolist())) == 3
    assert len(hash_lines([])) == 0


def test_membership():
    members = hash_set([np.array([5, 1], dtype=np.uint64), np.array([5, 2**64 - 1], dtype=np.uint64)])
    assert members.tolist() == [1, 5, 2**64 - 1]
    asked = np.array([0, 1, 4, 5, 6, 2**64 - 1], dtype=np.uint64)
    assert contains(members, asked).tolist() == [False, True, False, True, False, True]
    assert not contains(hash_set([]), asked).any()
