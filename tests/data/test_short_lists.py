"""Short-lists: what a sentence's list holds, and what is refused, replaced and kept."""

import contextlib

import numpy as np
import pytest

from nmt.data import short_lists
from nmt.data.build import build_vocabulary
from nmt.data.derived import own_derived, remove_derived
from nmt.data.short_lists import SHORT_LISTS, ShortLists, build_short_lists, make_short_lists
from nmt.data.vocab import Vocabulary, train_vocabulary
from nmt.errors import DataError, OutputError, VocabularyError
from tests.commands import run_command

SOURCE = ["one two", "three", "one two three four five six", "two"]
TARGET = ["eins zwei", "drei", "eins zwei drei", "zwei"]
VOCAB = train_vocabulary(SOURCE + TARGET, size=40).vocab


@pytest.fixture
def data(write_data_set, tmp_path):
    """A data set with a vocabulary and shards."""
    data = write_data_set(tmp_path / "data", SOURCE, TARGET)
    build_vocabulary(data, size=40, threads=1)
    return data


def test_a_list_holds_the_translations_of_its_pieces_the_pieces_frequent_ones_and_special_ones(shards_of, monkeypatch):
    monkeypatch.setattr(short_lists, "FREQUENT", 1)
    monkeypatch.setattr(short_lists, "LIKELIEST", 1)
    pairs = [([10, 20 + number], [11, 30 + number]) for number in range(4)]
    lists = make_short_lists(shards_of(pairs), VOCAB)
    assert lists.frequent_F.tolist() == [11]
    assert lists.of_sentence(np.array([20])).tolist() == [0, 1, 2, 3, 11, 20, 30]
    assert lists.of_sentence(np.array([22, 20, 22])).tolist() == [0, 1, 2, 3, 11, 20, 22, 30, 32]
    assert lists.of_sentence(np.array([39])).tolist() == [0, 1, 2, 3, 11, 39]  # no training pair has it


def test_lists_of_a_data_set_are_made_once_and_made_again_for_other_shards(data):
    made = build_short_lists(data)
    path = data / "short-lists.npz"
    assert made.changed
    assert made.statistics.coverage == 1.0  # of the training sentences themselves
    assert (made.lists.pairs, made.pairs) == (4, 4)
    before = path.read_bytes()
    again = build_short_lists(data)
    assert (again.changed, again.statistics, path.read_bytes()) == (False, made.statistics, before)
    vocab = build_vocabulary(data, size=36, threads=1).vocab
    with pytest.raises(DataError, match="with another vocabulary than the model's"):
        ShortLists.load(data, vocab)
    assert build_short_lists(data).changed
    assert ShortLists.load(data, vocab).fingerprint == ShortLists.load(path, vocab).fingerprint


def test_what_is_written_is_read(data):
    made = build_short_lists(data).lists
    read = ShortLists.load(data / "short-lists.npz", Vocabulary.load(data / "vocab.model"))
    for row in range(read.vocab_size):
        assert read.of_sentence(np.array([row])).tolist() == made.of_sentence(np.array([row])).tolist()
    assert (read.fingerprint, read.pairs, read.shards) == (made.fingerprint, 4, made.shards)


def test_frequent_pieces_are_those_of_the_targets_whatever_explains_them(shards_of, monkeypatch):
    """Piece 11 is in every target, so no source piece explains it alone; piece 12 has a source piece of its own."""
    monkeypatch.setattr(short_lists, "FREQUENT", 1)
    pairs = [([20 + number], [11, 30 + number]) for number in range(9)] + [([19], [12])] * 8
    assert make_short_lists(shards_of(pairs), VOCAB).frequent_F.tolist() == [11]


def test_without_pairs_there_are_no_lists(shards_of):
    with pytest.raises(DataError, match="need training pairs"):
        make_short_lists(shards_of([]), VOCAB)


def test_statistics_of_no_pairs_are_none(shards_of):
    lists = make_short_lists(shards_of([([10], [11])]), VOCAB)
    assert lists.statistics(shards_of([])) is None


def test_shards_that_are_written_meanwhile_are_told(data, monkeypatch):
    estimate = short_lists.make_short_lists

    def estimate_slowly(*args, **options):
        build_vocabulary(data, size=36, threads=1)
        return estimate(*args, **options)

    monkeypatch.setattr(short_lists, "make_short_lists", estimate_slowly)
    with pytest.raises(DataError, match="was written again meanwhile"):
        build_short_lists(data)
    assert not (data / "short-lists.npz").exists()


@pytest.mark.parametrize("length", [200, 600])
def test_a_file_that_was_cut_off_is_made_again(data, length):
    build_short_lists(data)
    path = data / "short-lists.npz"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DataError, match="is damaged"):
        ShortLists.load(data)
    assert build_short_lists(data).changed
    ShortLists.load(data)


def test_every_flipped_bit_of_the_file_is_told_or_harmless(data):
    build_short_lists(data)
    path = data / "short-lists.npz"
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 1 << position % 8]) + content[position + 1 :])
        SHORT_LISTS.is_ours(path)
        with contextlib.suppress(DataError):
            ShortLists.load(data)


def test_a_file_of_the_user_is_kept(data):
    path = data / "short-lists.npz"
    path.write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"short-lists\.npz.*not short-lists that nmt wrote"):
        build_short_lists(data)
    build_vocabulary(data, size=36, threads=1)  # which does not write it
    assert path.read_bytes() == b"mine"
    assert "short-lists.npz" not in own_derived(data)


def test_lists_are_removed_with_what_else_was_derived_from_a_text(data):
    build_short_lists(data)
    assert "short-lists.npz" in own_derived(data)
    remove_derived(data, ["short-lists.npz"])
    assert not (data / "short-lists.npz").exists()


def test_lists_without_shards_are_refused(write_data_set, tmp_path):
    data = write_data_set(tmp_path / "data", SOURCE, TARGET)
    with pytest.raises(DataError, match="has no shards yet"):
        build_short_lists(data)


def test_lists_need_the_vocabulary_of_the_shards(data):
    (data / "vocab.model").unlink()
    with pytest.raises(VocabularyError):
        build_short_lists(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": np.array(9)}, "is of version 9, not 1"),
        ({"starts": np.array([0, 5, 3])}, "is damaged"),
        ({"starts": np.arange(3)}, "is damaged"),
        ({"pieces": np.array([4_000], dtype=np.int32)}, "is damaged"),
        ({"frequent": np.array([-1], dtype=np.int32)}, "is damaged"),
        ({"frequent": np.array([0.5])}, "is damaged, or no file of short-lists"),
        ({"more": np.array(0)}, "is damaged, or no file of short-lists"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(data, change, message):
    build_short_lists(data)
    path = data / "short-lists.npz"
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **arrays | change)
    with pytest.raises(DataError, match=message):
        ShortLists.load(data)
    if "more" not in change:
        assert build_short_lists(data).changed
        ShortLists.load(data)


def test_a_file_that_does_not_exist_or_is_none_is_refused(data, tmp_path):
    with pytest.raises(DataError, match=r"No such file.*nmt build-vocab --data .* --short-lists"):
        ShortLists.load(data)
    (tmp_path / "text").write_text("no lists")
    with pytest.raises(DataError, match="no file of short-lists"):
        ShortLists.load(tmp_path / "text")


def test_the_command_keeps_the_vocabulary_unless_settings_are_given(data):
    before = (data / "vocab.model").read_bytes()
    made = run_command(["build-vocab", "--data", data, "--short-lists"])
    assert made.returncode == 0, made.stderr.decode()
    assert "short-lists.npz, from 4 of 4 pairs" in made.stderr.decode()
    assert "which hold 100.0% of the targets' pieces" in made.stderr.decode()
    assert (data / "vocab.model").read_bytes() == before
    again = run_command(["build-vocab", "--data", data, "--short-lists"])
    assert again.stderr.decode().splitlines()[-1] == "Up to date: short-lists."
    other = run_command(["build-vocab", "--data", data, "--size", "36"])
    assert "short-lists.npz: was made from other shards. --short-lists makes it again." in other.stderr.decode()
    both = run_command(["build-vocab", "--data", data, "--size", "38", "--short-lists"])
    assert both.returncode == 0, both.stderr.decode()
    assert ShortLists.load(data, Vocabulary.load(data / "vocab.model")).vocab_size == 38
