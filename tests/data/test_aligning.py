"""Alignments of pairs: words of a made-up language are found again, and the shards hold what was found."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from nmt.data import aligning
from nmt.data.aligning import _digamma, align
from nmt.data.batching import collate
from nmt.data.mixing import MixedShards
from nmt.data.shard_index import ALIGNMENTS
from nmt.data.shards import ParallelShards
from nmt.errors import ConfigError, DataError
from tests.data.one_data_set import build_vocabulary

WORDS, PARTICLE = range(10, 40), 7


def pairs_with_truth(count: int, seed: int = 0) -> tuple[list[tuple[list[int], list[int]]], list[int]]:
    """Each word has one translation; neighbours change places, and particles come from nothing."""
    draw = np.random.default_rng(seed)
    pairs, truth = [], []
    for _ in range(count):
        source = draw.choice(WORDS, draw.integers(2, 9), replace=False).tolist()
        order = list(range(len(source)))
        for place in range(0, len(order) - 1, 2):
            if draw.random() < 0.5:
                order[place : place + 2] = order[place : place + 2][::-1]
        target, numbers = [], []
        for place in order:
            if draw.random() < 0.2:
                target.append(PARTICLE)
                numbers.append(0)
            target.append(source[place] + 100)
            numbers.append(place + 1)
        pairs.append((source, target))
        truth += numbers
    return pairs, truth


def test_a_made_up_language_is_aligned(shards_of):
    pairs, truth = pairs_with_truth(4000)
    found = align(shards_of(pairs))
    assert found.dtype == np.uint16
    assert (found == truth).mean() > 0.97
    assert ((found != truth) & (found > 0)).mean() < 0.01
    assert np.array_equal(align(shards_of(pairs), threads=3), found)


def test_pairs_that_are_all_long_are_aligned(shards_of, monkeypatch):
    monkeypatch.setattr(aligning, "_LONGEST_SAMPLED", 1)
    pairs, truth = pairs_with_truth(800)
    assert (align(shards_of(pairs)) == truth).mean() > 0.9
    assert len(align(shards_of([]))) == 0


def test_no_probability_is_too_small_for_fast_arithmetic():
    sums = aligning._Sums.zero(3, 5)
    sums.translations[0] = 50
    assert sums.direction(np.array([1, 1]), has_jumps=False).translations.min() > np.finfo(np.float32).tiny


def test_repeated_words_are_told_apart_by_their_places(shards_of):
    """Only jumps can tell which of two equal words one comes from."""
    pairs, truth = pairs_with_truth(300)
    doubled = [([*source, 50, *source], [*target, 150, *target]) for source, target in pairs[:100]]
    found = align(shards_of(pairs + doubled))[len(truth) :]
    ends = np.cumsum([0, *(len(target) for _, target in doubled)])
    are_right = []
    for (source, target), start, end in zip(doubled, ends, ends[1:], strict=False):
        middle = len(target) // 2
        before, behind = found[start : start + middle], found[start + middle + 1 : end]
        are_right += [*(before[before > 0] <= len(source) // 2), *(behind[behind > 0] > len(source) // 2 + 1)]
    assert np.mean(are_right) > 0.95


def test_digamma_is_that_of_others():
    values = np.geomspace(1e-3, 1e6, 50)
    assert np.allclose(_digamma(values), torch.digamma(torch.tensor(values)).numpy(), rtol=1e-6, atol=1e-6)


def test_shards_hold_alignments_of_training_pairs(write_data_set, tmp_path):
    lines = [f"{one} {two}" for one in "abcde" for two in "vwxyz"]
    data = write_data_set(tmp_path / "data", lines, [line[::-1].upper() for line in lines])
    said: list[str] = []
    build_vocabulary(data, size=40, aligns=True, notify=said.append)
    shards = ParallelShards.open(data, "train")
    batch = collate(shards, np.array([3, 1]))
    first, second = (shards.alignments(np.array([number])).tolist() for number in (3, 1))
    assert any(first)
    assert batch.aligned_N.tolist() == [*first, 0, *second, 0]  # the ends of sentences come from nothing
    assert [*shards.alignments(np.arange(len(shards)))] == [*align(shards)]
    assert ParallelShards.open(data, "valid").alignments(np.array([0])) is None
    found = align(shards)
    share = f"{np.count_nonzero(found) / len(found):.1%} of the target pieces"
    assert re.fullmatch(rf".*data: aligned 25 training pairs in \d+ s; {share} come from a source piece", said[0])
    with pytest.raises(ConfigError, match="align takes pairs of at most 65,535 pieces: lower --max-pieces, or --no-al"):
        build_vocabulary(data, size=40, max_pieces=65_536)
    assert not build_vocabulary(data, size=40, aligns=True).changed
    assert not build_vocabulary(data, size=40).changed
    assert build_vocabulary(data, size=39).index.is_aligned
    assert build_vocabulary(data, size=39, aligns=False).changed
    assert not (data / "shards" / ALIGNMENTS).exists()
    assert not build_vocabulary(data, size=39).changed


def test_a_damaged_alignment_is_told(write_data_set, tmp_path):
    data = write_data_set(tmp_path / "data", ["a b"] * 30, ["x y"] * 30)
    build_vocabulary(data, size=20, aligns=True)
    file = data / "shards" / ALIGNMENTS
    file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.raises(DataError, match=r"alignments: is damaged.*build-vocab"):
        ParallelShards.open(data, "train").alignments(np.array([2]))
    file.write_bytes(b"")
    with pytest.raises(DataError, match="damaged"):
        ParallelShards.open(data, "train")


def test_a_mixture_has_the_alignments_of_its_corpora(write_data_set, tmp_path):
    parts = []
    for name in ("first", "second"):
        data = write_data_set(tmp_path / name, ["a b", "b a"] * 20, ["x y", "y x"] * 20)
        build_vocabulary(data, size=20, aligns=True)
        parts.append(ParallelShards.open(data, "train"))
    expected = [*parts[1].alignments(np.array([3])), *parts[0].alignments(np.array([0]))]
    assert MixedShards(parts).alignments(np.array([43, 0])).tolist() == expected
    parts[0].index = replace(parts[0].index, is_aligned=False)
    assert MixedShards(parts).alignments(np.array([43, 0])) is None
