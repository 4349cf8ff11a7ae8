"""Mixing: each pair comes as often as its corpus weighs, and a mixture reads like one corpus."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.batching import collate
from nmt.data.build import build_vocabulary as build_vocabularies
from nmt.data.manifest import read_manifest, write_manifest
from nmt.data.mixing import MixedShards, check_weights, epoch_population, mixture, parse_weighted
from nmt.data.shard_index import SIDES
from nmt.data.shards import ParallelShards
from nmt.data.vocab_record import VocabularySettings
from nmt.errors import ConfigError, DataError
from tests.data.one_data_set import build_vocabulary

SIZES = st.lists(st.integers(0, 50), min_size=1, max_size=4)
WEIGHTS = st.floats(0.05, 6)


@settings(deadline=None)
@given(st.data(), SIZES, st.integers(0, 9), st.integers(0, 9))
def test_each_pair_comes_as_often_as_its_corpus_weighs(data, sizes, seed, epoch):
    weights = [data.draw(WEIGHTS) for _ in sizes]
    sizes = [60, *sizes]
    weights = [0.5, *weights]
    pairs = epoch_population(sizes, weights, seed, epoch)
    counts = np.bincount(pairs, minlength=sum(sizes))
    assert len(counts) == sum(sizes)
    for start, size, weight in zip(np.cumsum([0, *sizes]), sizes, weights, strict=False):
        ours = counts[start : start + size]
        assert set(ours.tolist()) <= {int(weight), int(weight) + 1}
        assert abs(ours.sum() - weight * size) < 1


def test_weights_of_two_halves_leave_the_rest_to_chance():
    def counts(epoch, seed=1):
        return np.bincount(epoch_population([100, 40], [2.5, 4], seed, epoch), minlength=140)

    assert sorted(counts(0)[:100]) == [2] * 50 + [3] * 50
    assert counts(0)[100:].tolist() == [4] * 40
    assert np.array_equal(counts(0), counts(0))
    assert not np.array_equal(counts(0), counts(1))
    assert not np.array_equal(counts(0), counts(0, seed=2))
    mean = np.mean([counts(epoch)[:100] for epoch in range(400)], axis=0)
    assert mean.min() > 2.35
    assert mean.max() < 2.65


def test_equal_corpora_do_not_draw_alike():
    counts = np.bincount(epoch_population([100, 100], [0.5, 0.5], 1, 0), minlength=200)
    assert not np.array_equal(counts[:100], counts[100:])


def test_the_mean_is_the_weight_even_where_an_epoch_cannot_meet_it():
    epochs = [len(epoch_population([2, 1], [1, 0.25], 1, epoch)) for epoch in range(2_000)]
    assert set(epochs) == {2, 3}
    assert np.mean(epochs) == pytest.approx(2.25, abs=0.04)


def test_the_chance_is_not_that_of_the_plan():
    """Which draws from [seed, epoch], and for NumPy that is the same as [seed, epoch, 0]."""
    plans = np.random.default_rng([7, 3])
    plans.random()
    assert set(epoch_population([100], [0.5], 7, 3).tolist()) != set(plans.permutation(100)[:50].tolist())


def test_weights_of_one_are_every_pair_once():
    assert epoch_population([5, 7], [1, 1.0], 1, 0) is None
    assert epoch_population([5, 7], [1, 2], 1, 0).tolist() == [*range(5), *np.repeat(np.arange(5, 12), 2)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 2)), min_size=1, max_size=3), st.integers(0, 9))
def test_weights_that_may_leave_an_epoch_without_pairs_are_refused(parts, epoch):
    sizes, weights = zip(*parts, strict=True)
    try:
        check_weights(sizes, weights, "--data")
    except ConfigError as error:
        assert "an epoch may have no pair" in str(error)
        assert (
            any(len(epoch_population(sizes, weights, seed, 0)) == 0 for seed in range(200))
            or sum(size * weight for size, weight in parts) > 0.9
        )
    else:
        pairs = epoch_population(sizes, weights, 1, epoch)
        assert pairs is None or len(pairs) > 0


SENTENCES = st.lists(st.integers(4, 65_535), max_size=8)
CORPORA = st.lists(st.lists(st.tuples(SENTENCES, SENTENCES), max_size=5), min_size=1, max_size=4).filter(any)


@given(st.data(), CORPORA)
def test_a_mixture_reads_like_its_corpora_in_one(shards_of, data, corpora):
    mixed = MixedShards([shards_of(corpus) for corpus in corpora])
    whole = shards_of([pair for corpus in corpora for pair in corpus])
    assert mixed.sizes == [len(corpus) for corpus in corpora]
    assert len(mixed) == len(whole)
    assert np.array_equal(mixed.source_lengths, whole.source_lengths)
    assert np.array_equal(mixed.target_lengths, whole.target_lengths)
    assert mixed.source_lengths.dtype == np.int32
    chosen = np.array(data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=12)), np.int32)
    for side in SIDES:
        assert mixed.tokens(side, chosen).tolist() == whole.tokens(side, chosen).tolist()
        assert mixed.tokens(side, chosen).dtype == np.uint16
    ours, theirs = collate(mixed, chosen), collate(whole, chosen)
    assert np.array_equal(ours.source_M, theirs.source_M)
    assert np.array_equal(ours.target_output_N, theirs.target_output_N)


def mixed(*data: Path) -> ParallelShards | MixedShards:
    return mixture(data, [ParallelShards.open(folder, "train") for folder in data])


@pytest.mark.parametrize(
    ("languages", "tags", "is_refused"),
    [
        (("de", "fr"), ("", ""), True),
        (("de", "fr"), ("<2x> ", "<2x> "), True),
        (("de", "fr"), ("<2de> ", "<2fr> "), False),
        (("de", "fr"), ("", "<2fr> "), False),
        (("de", "deu"), ("", ""), False),
    ],
)
def test_target_languages_are_told_apart_by_tags(tmp_path, write_data_set, languages, tags, is_refused):
    folders = []
    for number, (language, tag) in enumerate(zip(languages, tags, strict=True)):
        sources = [f"{tag}{word} {n}" for n in range(30) for word in ("house", "tree", "<2de>", "<2fr>")]
        folders.append(write_data_set(tmp_path / str(number), sources, sources, languages=("en", language)))
    first, second = folders
    build_vocabulary(first, size=100, threads=1)
    build_vocabulary(second, existing=first / "vocab.model", threads=1)
    with pytest.raises(DataError, match="no piece before the source tells") if is_refused else nullcontext():
        mixed(*folders)
    build_vocabularies(folders, VocabularySettings(100), threads=1)
    mixed(*folders)


def test_a_tag_does_not_tell_languages_apart(tmp_path, write_data_set):
    """Of text in other languages, a model is asked for by its language alone."""
    lines = [f"{word} {n}" for n in range(30) for word in ("house", "tree")]
    first, second, third = (
        write_data_set(tmp_path / str(number), lines, lines, languages=("en", language))
        for number, language in enumerate(("de", "de", "fr"))
    )
    for folder in (second, third):
        write_manifest(read_manifest(folder).model_copy(update={"tag": "BT"}), folder)
    build_vocabularies([first, second], VocabularySettings(100), threads=1)
    build_vocabulary(third, existing=first / "vocab.model", threads=1)
    mixed(first, second)
    with pytest.raises(DataError, match="no piece before the source tells"):
        mixed(first, third)


def test_data_sets_of_two_source_rules_are_refused(two_data_sets):
    first, second = two_data_sets
    build_vocabulary(second, existing=first / "vocab.model", source_normalization="nfkc", threads=1)
    with pytest.raises(DataError, match="--source-normalization identity") as error:
        mixed(first, second)
    assert f"{second}: its source text was prepared otherwise (nfkc) than that of {first} (as it is)" in str(
        error.value
    )


@pytest.fixture
def two_data_sets(write_data_set, tmp_path) -> tuple[Path, Path]:
    first = write_data_set(
        tmp_path / "first", ["one two", "three", "one", "two"], ["eins zwei", "drei", "eins", "zwei"]
    )
    second = write_data_set(tmp_path / "second", ["two", "one"], ["zwei", "eins"])
    build_vocabulary(first, size=35, threads=1)
    build_vocabulary(second, existing=first / "vocab.model", threads=1)
    return first, second


def test_data_sets_of_one_vocabulary_open_as_a_mixture(two_data_sets):
    first, second = two_data_sets
    both = mixed(first, second)
    assert isinstance(both, MixedShards)
    assert both.sizes == [4, 2]
    assert both.tokens("source", np.array([4])).tolist() == ParallelShards.open(second, "train").pair(0)[0].tolist()
    assert isinstance(mixed(first), ParallelShards)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data/own", (Path("data/own"), 1.0)),
        ("data/own:4", (Path("data/own"), 4.0)),
        ("data/own:0.5", (Path("data/own"), 0.5)),
        ("data/a:b:2", (Path("data/a:b"), 2.0)),
    ],
)
def test_a_weight_stands_behind_the_folder(text, expected):
    assert parse_weighted(text) == expected


@pytest.mark.parametrize("text", ["own:0", "own:-1", "own:nan", "own:inf", "own:many", "own:", ":2"])
def test_a_weight_is_a_positive_number(text):
    with pytest.raises(DataError, match="positive, finite number"):
        parse_weighted(text)


def test_a_folder_with_a_colon_in_its_name_wins(tmp_path):
    (tmp_path / "own:2").mkdir()
    (tmp_path / "own").mkdir()
    assert parse_weighted(f"{tmp_path}/own:2") == (tmp_path / "own:2", 1.0)
    assert parse_weighted(f"{tmp_path}/own:2:3") == (tmp_path / "own:2", 3.0)
    assert parse_weighted(f"{tmp_path}/own:3") == (tmp_path / "own", 3.0)
