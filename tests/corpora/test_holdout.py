"""Which pairs are held out, and in what order."""

import numpy as np
import pytest

from nmt.corpora.chunks import PairChunk, store, stored
from nmt.corpora.corpus_kinds import HeldOut
from nmt.corpora.holdout import hold_out

PAIRS = [(f"source {number}", f"target {number}") for number in range(60)]
HASHES = np.random.default_rng(0).permutation(60).astype(np.uint64)


def chunks(size: int) -> list[PairChunk]:
    found = []
    for begin in range(0, len(PAIRS), size):
        own = slice(begin, begin + size)
        found.append(PairChunk(0, PAIRS[own], PAIRS[own], {"pair": HASHES[own] + 100, "source": HASHES[own]}))
    return found


@pytest.mark.parametrize("size", [1, 7, 60])
def test_the_smallest_hashes_are_held_out_in_the_order_of_the_corpus_however_it_is_read(size):
    wanted = {
        "valid": HeldOut(kind="held-out", pairs=5, max_share=0.5),
        "test": HeldOut(kind="held-out", pairs=4, max_share=0.5),
    }
    held = hold_out(chunks(size), wanted)
    ranked = np.argsort(HASHES)
    for split, chosen in (("valid", ranked[:5]), ("test", ranked[5:9])):
        assert held[split].pairs == [PAIRS[index] for index in sorted(chosen)]
        assert held[split].pair_hashes.tolist() == [int(HASHES[index]) + 100 for index in sorted(chosen)]


def test_a_share_is_rounded_up_and_each_split_has_its_own():
    wanted = {
        "valid": HeldOut(kind="held-out", pairs=50, max_share=0.06),  # 3.6 of 60 pairs
        "test": HeldOut(kind="held-out", pairs=50, max_share=0.02),
    }
    held = hold_out(chunks(7), wanted)
    assert [len(held[split].pairs) for split in ("valid", "test")] == [4, 2]


def test_chunks_are_stored_as_they_are(tmp_path):
    plain = chunks(25)
    line = "a\u2028\x85\r \0 犬"
    empty = PairChunk(2, [], [], {"pair": HASHES[:0]})
    last = PairChunk(3, [(line, "b")], [("\x85", line)], {"pair": HASHES[:1], "copied": np.array([True])})
    every = [*plain, empty, last]
    store(every, tmp_path / "chunks")
    for found, expected in zip(stored(tmp_path / "chunks"), every, strict=True):
        assert (found.corpus, found.pairs, found.originals) == (expected.corpus, expected.pairs, expected.originals)
        assert found.values.keys() == expected.values.keys()
        for name, values in expected.values.items():
            np.testing.assert_array_equal(found.values[name], values, strict=True)
