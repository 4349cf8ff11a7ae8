"""Damaged shards: one error that says what to do, and the command that it names repairs them."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.shard_index import SHARDS, read_index
from nmt.data.shards import ParallelShards
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import DataError, NmtError
from tests.data.one_data_set import build_vocabulary, write_shards

WORDS = ["river", "bridge", "stone", "water", "light", "under", "over"]
SOURCE = [" ".join(WORDS[(line * step) % 7] for step in range(1, 6)) for line in range(400)]
TARGET = [" ".join(reversed(line.split())) for line in SOURCE]


@pytest.fixture(scope="module")
def whole(write_data_set, tmp_path_factory) -> Path:
    """A data set with vocabulary and shards; to be copied before it is damaged."""
    data = write_data_set(tmp_path_factory.mktemp("whole") / "data", SOURCE, TARGET)
    build_vocabulary(data, size=40, threads=1)
    return data


@pytest.fixture
def data(whole, tmp_path) -> Path:
    shutil.copytree(whole, tmp_path / "data")
    return tmp_path / "data"


def change_index(**changes) -> Callable[[Path], object]:
    def change(shards: Path) -> None:
        index = json.loads((shards / "index.json").read_text())
        (shards / "index.json").write_text(json.dumps(index | changes))

    return change


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda shards: (shards / name).write_bytes(content)


def change_numbers(name: str, dtype: type, change: Callable[[np.ndarray], object]) -> Callable[[Path], object]:
    def changed(shards: Path) -> None:
        numbers = np.fromfile(shards / name, dtype)
        change(numbers)
        (shards / name).write_bytes(numbers.tobytes())

    return changed


def set_at(place: int | slice, value: int) -> Callable[[np.ndarray], object]:
    return lambda numbers: numbers.__setitem__(place, value)


def cut(name: str, count: int) -> Callable[[Path], object]:
    return lambda shards: (shards / name).write_bytes((shards / name).read_bytes()[:-count])


def append(name: str) -> Callable[[Path], object]:
    return lambda shards: (shards / name).write_bytes((shards / name).read_bytes() + b"\x05\x00")


def of_train(values: dict) -> Callable[[Path], object]:
    def change(shards: Path) -> None:
        index = json.loads((shards / "index.json").read_text())
        index["splits"]["train"] |= values
        (shards / "index.json").write_text(json.dumps(index))

    return change


TOKENS, OFFSETS = "train.source.tokens", "train.target.offsets"
SEEN_AT_OPENING = {
    "empty index": write("index.json", b""),
    "index that is null": write("index.json", b"null"),
    "index that is deep": write("index.json", b"[" * 200_000),
    "another version": change_index(version=99),
    "dtype of objects": change_index(dtype="object"),
    "another dtype": change_index(dtype="uint32"),
    "no splits": change_index(splits={}),
    "limit below zero": change_index(max_pieces=-1),
    "limit below what is there": change_index(max_pieces=3),
    "no sides": of_train({"sides": {}}),
    "counts beyond 64 bits": of_train({"pairs": 10**40}),
    "fewer pairs": of_train({"pairs": 3}),
    "missing tokens": lambda shards: (shards / TOKENS).unlink(),
    "missing index": lambda shards: (shards / "index.json").unlink(),
    "short tokens": cut(TOKENS, 2),
    "long tokens": append(TOKENS),
    "short offsets": cut(OFFSETS, 8),
    "offsets that fall": change_numbers(OFFSETS, np.int64, set_at(3, 0)),
    "offset below zero": change_numbers(OFFSETS, np.int64, set_at(3, -(2**63))),
    "first offset above zero": change_numbers(OFFSETS, np.int64, set_at(0, 1)),
    "last offset beyond the tokens": change_numbers(OFFSETS, np.int64, set_at(-1, 2**62)),
    "zeroed tokens": change_numbers(TOKENS, np.uint16, set_at(slice(None), 0)),
    "tokens zeroed at the end": change_numbers(TOKENS, np.uint16, set_at(slice(-300, None), 0)),
    "ids outside the vocabulary": change_numbers(TOKENS, np.uint16, set_at(slice(None), 999)),
}


@pytest.mark.parametrize("damage", SEEN_AT_OPENING)
def test_damage_is_one_error_and_the_command_that_it_names_repairs(damage, data, whole):
    SEEN_AT_OPENING[damage](data / "shards")
    with pytest.raises(DataError, match=re.escape(f"`nmt build-vocab --data {data}`")) as caught:
        ParallelShards.open(data, "train")
    assert str(data) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert build_vocabulary(data, size=40, threads=1).changed
    assert contents(data) == contents(whole)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def large(write_data_set, tmp_path_factory) -> Path:
    """A data set with more tokens than are sampled where shards are opened."""
    data = write_data_set(tmp_path_factory.mktemp("large") / "data", SOURCE * 80, TARGET * 80)
    build_vocabulary(data, size=40, threads=1)
    return data


@pytest.mark.parametrize("value", [0, 999])
def test_damage_between_the_samples_is_noticed_where_it_is_used_and_repaired(large, tmp_path, value):
    data = tmp_path / "data"
    shutil.copytree(large, data)
    assert not build_vocabulary(data, size=40, threads=1).changed
    offsets = np.fromfile(data / "shards" / "train.source.offsets", np.int64)
    sentence = 180
    start, end = int(offsets[sentence]), int(offsets[sentence + 1])
    assert start > 2_100  # behind the first sample
    change_numbers(TOKENS, np.uint16, set_at(slice(start, end), value))(data / "shards")
    shards = ParallelShards.open(data, "train")
    assert len(shards.tokens("source", np.array([0, 1]))) > 0
    with pytest.raises(
        DataError, match=rf"train\.source\.tokens: is damaged: it holds the id {value}.*nmt build-vocab"
    ):
        shards.tokens("source", np.array([1, sentence]))
    assert build_vocabulary(data, size=40, threads=1).changed
    assert contents(data / "shards") == contents(large / "shards")


def test_a_checksum_for_every_file_is_written(data):
    index = read_index(data)
    assert sorted([*index.checksums, "index.json"]) == sorted(path.name for path in (data / "shards").iterdir())
    assert index.vocab_size == VocabularyPair.load(data / "vocab.model").source.size


def test_a_folder_of_the_users_is_no_shards(tmp_path):
    for content in (b"null", b'{"pages": 3}', b"[" * 100_000, b"my index"):
        (tmp_path / "index.json").write_bytes(content)
        assert not SHARDS.is_ours(tmp_path)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_bytes_in_any_file_are_read_or_refused(whole, tmp_path_factory, draw):
    """Whatever is read after that are ids of the vocabulary."""
    data = tmp_path_factory.getbasetemp() / "mangled"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(whole, data)
    path = draw.draw(st.sampled_from(sorted((data / "shards").iterdir())))
    content = bytearray(path.read_bytes())
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(0, max(0, len(content) - 1)))
        length = draw.draw(st.integers(0, 20))
        content[place : place + length] = draw.draw(st.binary(max_size=20))
    path.write_bytes(content)
    try:
        for split in ("train", "valid"):
            shards = ParallelShards.open(data, split)
            for side in ("source", "target"):
                tokens = shards.tokens(side, np.arange(len(shards)))
                assert tokens.min() > 0
                assert tokens.max() < shards.index.vocab_size
    except NmtError as error:
        assert "nmt build-vocab" in str(error)


def test_writing_is_refused_where_a_user_keeps_files(data):
    (data / "shards" / "notes.txt").write_text("mine")
    (data / "shards" / "index.json").write_bytes(b"")
    with pytest.raises(NmtError, match=r"also holds notes\.txt"):
        write_shards(data, VocabularyPair.load(data / "vocab.model"), threads=1)
