"""Sets of hashes on disk against Python's own sets."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.corpora.hashes import SeenHashes, contains, hash_lines, hash_set


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
