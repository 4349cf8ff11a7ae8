"""What was derived from a data set's text: replaced where it is ours, kept where it is the user's."""

import shutil

import pytest

from nmt.data.build import build_vocabulary
from nmt.data.derived import own_derived
from nmt.data.vocab import train_vocabulary
from nmt.errors import OutputError

SOURCE = ["one two", "three", "one two three four five six", "two"]
TARGET = ["eins zwei", "drei", "eins zwei drei", "zwei"]
USERS = train_vocabulary(["tre fire fem", "seks syv", "fire fire"], size=32).vocab


@pytest.fixture
def data(write_data_set, tmp_path):
    """A data set with a vocabulary and shards."""
    data = write_data_set(tmp_path / "data", SOURCE, TARGET)
    build_vocabulary(data, size=40, threads=1)
    return data


def test_a_model_that_the_user_copied_over_ours_is_not_replaced(data):
    (data / "vocab.model").write_bytes(USERS.model_bytes)
    assert own_derived(data) == ["vocab.txt", "shards"]
    with pytest.raises(OutputError, match=r"vocab\.model.*not a vocabulary that nmt wrote"):
        build_vocabulary(data, size=30, threads=1)
    assert (data / "vocab.model").read_bytes() == USERS.model_bytes


@pytest.mark.parametrize("lost", ["shards", "vocab.txt"])
def test_the_pieces_or_the_shards_tell_that_a_model_is_ours(data, lost):
    shutil.rmtree(data / lost) if lost == "shards" else (data / lost).unlink()
    assert "vocab.model" in own_derived(data)
    assert build_vocabulary(data, size=30, threads=1).vocab.source.size == 30


def test_a_vocabulary_that_was_given_is_kept_where_another_replaces_it(data):
    (data / "vocab.model").write_bytes(USERS.model_bytes)
    in_place = build_vocabulary(data, existing=data / "vocab.model", threads=1)
    assert in_place.kept is None
    assert build_vocabulary(data, existing=data / "vocab.model", max_length=9, threads=1).kept is None
    built = build_vocabulary(data, size=40, threads=1)
    assert built.kept == data / "vocab.model.before"
    assert built.kept.read_bytes() == USERS.model_bytes
    assert (data / "vocab.model").read_bytes() == built.vocab.source.model_bytes
    assert build_vocabulary(data, size=30, threads=1).kept is None  # the one before was trained here
