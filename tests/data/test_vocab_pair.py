"""The vocabularies of both sides, and their files."""

import hashlib

import pytest

from nmt.config import AugmentationConfig
from nmt.data.data_folder import DataFolder, vocabulary_fingerprint
from nmt.data.imported_vocab import ImportedVocabulary
from nmt.data.sampling import write_sampled_shards
from nmt.data.shard_index import Sampling, read_index
from nmt.data.shards import ParallelShards
from nmt.data.vocab import SPECIAL_PIECES, train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import OutputError, VocabularyError
from tests.data.one_data_set import build_vocabulary

LINES = ["ba do ki", "ki ki do", "do bado kiba", "doki ba"] * 5
SOURCE = train_vocabulary(LINES, size=14).vocab
TARGET = train_vocabulary(["me no tu ma"] * 9, size=15).vocab
LISTED = ImportedVocabulary(TARGET.model_bytes, [*SPECIAL_PIECES, *reversed(TARGET.pieces(range(4, 15))), ">>deu<<"])
SHARED = VocabularyPair.shared(SOURCE)
PAIRS = [SHARED, VocabularyPair.shared(LISTED), VocabularyPair(SOURCE, TARGET), VocabularyPair(LISTED, TARGET),
         VocabularyPair(SOURCE, LISTED)]  # fmt: skip


def test_each_side_has_its_vocabulary():
    pair = VocabularyPair(SOURCE, TARGET)
    assert (pair.of("source"), pair.of("target")) == (SOURCE, TARGET)
    assert (pair.larger_size, pair.target_size, pair.is_shared, pair.is_one) == (15, 15, False, False)
    assert (SHARED.larger_size, SHARED.target_size, SHARED.is_shared, SHARED.is_one) == (14, None, True, True)
    pair.set_threads(3)
    assert SOURCE.threads == TARGET.threads == 3


@pytest.mark.parametrize("pair", PAIRS)
def test_what_was_saved_is_loaded(pair, tmp_path):
    path = tmp_path / "vocab.model"
    VocabularyPair(LISTED, LISTED).save(path)
    VocabularyPair(LISTED, TARGET).save(path)  # its further files go
    pair.save(path)
    again = VocabularyPair.load(path)
    assert again.contents(path) == pair.contents(path)
    assert again.is_one == pair.is_one
    assert again.fingerprint == pair.fingerprint == vocabulary_fingerprint(path)
    lists = {file.name.replace(".model", ".txt") for file in pair.contents(path) if file.suffix == ".model"}
    assert {file.name for file in tmp_path.iterdir()} == lists | {file.name for file in pair.contents(path)}
    assert (tmp_path / "vocab.txt").read_text().split("\n")[:-1] == pair.source.pieces(range(pair.source.size))


def test_the_fingerprint_covers_all_files():
    assert SHARED.fingerprint == hashlib.sha256(SOURCE.model_bytes).hexdigest()
    assert len({pair.fingerprint for pair in PAIRS}) == len(PAIRS)


def test_a_model_of_another_name_has_no_other_files(tmp_path):
    VocabularyPair(SOURCE, TARGET).save(tmp_path / "vocab.model")
    (tmp_path / "pipe").write_bytes(SOURCE.model_bytes)
    assert VocabularyPair.load(tmp_path / "pipe").is_one


def test_a_model_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(VocabularyError, match=r"none\.model: cannot be read"):
        VocabularyPair.load(tmp_path / "none.model")


@pytest.mark.parametrize("name", ["vocab.target.model", "vocab.pieces.json"])
def test_a_damaged_file_is_named(name, tmp_path):
    VocabularyPair(LISTED, TARGET).save(tmp_path / "vocab.model")
    (tmp_path / name).write_bytes(b"damaged")
    with pytest.raises(VocabularyError, match=r"vocab\.(target\.model: is not a|model: its list of pieces is)"):
        VocabularyPair.load(tmp_path / "vocab.model")


@pytest.fixture
def data(write_data_set, tmp_path):
    return write_data_set(tmp_path / "data", LINES[:4], ["me no", "tu ma", "no tu", "ma me"])


def test_data_sets_are_encoded_with_both_vocabularies(data, tmp_path):
    pair = VocabularyPair(SOURCE, LISTED)
    pair.save(tmp_path / "given.model")
    built = build_vocabulary(data, existing=tmp_path / "given.model", threads=1)
    assert built.changed and built.index.vocab_fingerprint == pair.fingerprint
    source, target = ParallelShards.open(data, "train").pair(1)
    assert (source.tolist(), target.tolist()) == (SOURCE.encode([LINES[1]])[0], LISTED.encode(["tu ma"])[0])
    assert VocabularyPair.load(data / "vocab.model").fingerprint == pair.fingerprint
    assert not build_vocabulary(data, existing=data / "vocab.model", threads=1).changed
    write_sampled_shards(data, tmp_path / "sampled", pair, Sampling(0.5, AugmentationConfig(), 1))
    ids = ParallelShards.open_folder(tmp_path / "sampled", "train").pair(1)[1].tolist()
    assert LISTED.decode([ids]) == ["tu ma"]


def test_another_vocabulary_of_the_target_is_another_vocabulary(data, tmp_path):
    for target in (TARGET, LISTED):
        VocabularyPair(SOURCE, target).save(tmp_path / "given.model")
        built = build_vocabulary(data, existing=tmp_path / "given.model", threads=1)
        assert built.changed


def test_a_new_vocabulary_replaces_all_files_of_an_imported_one(data, tmp_path):
    pair = VocabularyPair(LISTED, TARGET)
    pair.save(tmp_path / "given.model")
    build_vocabulary(data, existing=tmp_path / "given.model", threads=1)
    built = build_vocabulary(data, size=30, threads=1)
    assert VocabularyPair.load(data / "vocab.model").fingerprint == built.vocab.fingerprint
    assert {file.name for file in DataFolder(data).vocabulary if file.exists()} == {"vocab.model", "vocab.txt"}


@pytest.mark.parametrize("name", ["vocab.target.model", "vocab.pieces.json", "vocab.target.txt"])
def test_files_of_the_user_are_left_alone(name, data):
    build_vocabulary(data, size=30, threads=1)
    fingerprint = read_index(data).vocab_fingerprint
    (data / name).write_bytes(b"mine")
    with pytest.raises(OutputError, match=rf"{name}: .*It is left as it is"):
        build_vocabulary(data, size=29, threads=1)
    assert (data / name).read_bytes() == b"mine"
    assert read_index(data).vocab_fingerprint == fingerprint
