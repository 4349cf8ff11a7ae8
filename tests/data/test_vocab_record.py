"""The vocabulary of a data set: ours is replaced, a given one is kept, the user's is left alone."""

import json
import shutil
from contextlib import nullcontext

import pytest

from nmt.config import AugmentationConfig
from nmt.data import vocab_pair, vocab_record
from nmt.data.data_folder import DataFolder
from nmt.data.lineage import encoded_record
from nmt.data.made import Made
from nmt.data.manifest import read_manifest
from nmt.data.sampling import write_sampled_shards
from nmt.data.shard_index import Sampling, read_index
from nmt.data.shard_writing import Encoding
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.data.vocab_record import read_vocabulary_record, vocabulary_kinds
from nmt.errors import DataError, OutputError
from nmt.io.hashing import sha256_of
from nmt.io.locking import is_held
from tests.data.one_data_set import SOURCE, TARGET, build_vocabulary
from tests.trees import contents

USERS = train_vocabulary(["tre fire fem", "seks syv", "fire fire"], size=32).vocab


def ours(data):
    return [path.name for path, kind in vocabulary_kinds(data).items() if path.exists() and kind.is_ours(path)]


def test_a_result_is_current_if_its_inputs_are_the_same_and_its_files_as_written(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    made = Made({"text": "x"}, {name: sha256_of(tmp_path / name) for name in ("a", "b")})
    assert made.is_current(tmp_path, {"text": "x"})
    assert not made.is_current(tmp_path, {"text": "y"})
    (tmp_path / "a").write_text("edited")
    assert not made.is_current(tmp_path, {"text": "x"})
    assert made.edited(tmp_path) == ["a"]
    (tmp_path / "a").unlink()
    assert not made.is_current(tmp_path, {"text": "x"})
    assert made.edited(tmp_path) == []


def test_the_record_names_settings_text_and_files(data):
    record = read_vocabulary_record(data)
    assert record.settings["size"] == 40 and record.made_from == []
    [text] = record.text
    assert text.sha256 == {name: sha256_of(data / name) for name in ("train.en", "train.de")}
    assert text.fingerprint == read_manifest(data).fingerprint
    assert record.files == {name: sha256_of(data / name) for name in ("vocab.model", "vocab.txt")}
    assert record.files["vocab.model"] == read_index(data).vocab_fingerprint


def test_a_model_that_the_user_copied_over_ours_is_not_replaced(data):
    (data / "vocab.model").write_bytes(USERS.model_bytes)
    assert ours(data) == ["vocab.txt", "vocab.json"]
    with pytest.raises(OutputError, match=r"vocab\.model.*not a vocabulary that nmt wrote"):
        build_vocabulary(data, size=30, threads=1)
    assert (data / "vocab.model").read_bytes() == USERS.model_bytes


@pytest.mark.parametrize("lost", ["shards", "vocab.txt"])
def test_a_model_is_ours_without_its_pieces_or_shards(data, lost):
    shutil.rmtree(data / lost) if lost == "shards" else (data / lost).unlink()
    assert "vocab.model" in ours(data)
    assert build_vocabulary(data, size=30, threads=1).vocab.source.size == 30


def test_a_vocabulary_is_not_trained_again_where_shards_are_lost(data):
    shutil.rmtree(data / "shards")
    built = build_vocabulary(data, size=40, threads=1)
    assert built.changed and built.trained is None


def test_a_vocabulary_that_is_given_again_stays_trained(data, write_data_set, tmp_path):
    """As an error about lost shards advises: the vocabulary that is there, with whatever settings it was trained."""
    record = read_vocabulary_record(data)
    shutil.rmtree(data / "shards")
    built = build_vocabulary(data, existing=data / "vocab.model", threads=1)
    assert built.changed and built.record == record == read_vocabulary_record(data)
    assert not build_vocabulary(data, size=40, threads=1).changed
    other = write_data_set(tmp_path / "other", TARGET, SOURCE)
    assert build_vocabulary(other, existing=data / "vocab.model", threads=1).record.is_given
    # It was not trained on changed text: named for that, it is given, and so is kept from then on.
    (data / "train.en").write_text("\n".join(reversed(SOURCE)) + "\n")
    assert build_vocabulary(data, existing=data / "vocab.model", threads=1).record.is_given


@pytest.mark.parametrize("content", ["", "null", "{", '{"version": 1}'])
def test_a_vocabulary_whose_record_is_damaged_is_left_as_it_is(data, content):
    (data / "vocab.json").write_text(content)
    with pytest.raises(DataError, match=r"vocab\.json: is damaged.*nmt build-vocab"):
        read_vocabulary_record(data)
    before = contents(data)
    with pytest.raises(OutputError, match="move it away"):
        build_vocabulary(data, size=30, threads=1)
    assert contents(data) == before


def test_a_record_of_another_version_is_named(data):
    record = DataFolder(data).vocab_record
    record.write_text(json.dumps({"version": 9}))
    with pytest.raises(DataError, match=r"vocab\.json: is of version 9, not 1\. Run `nmt build-vocab"):
        read_vocabulary_record(data)


@pytest.mark.parametrize("written", [1, 2, 3])
@pytest.mark.parametrize("is_first", [False, True])
def test_whenever_a_process_dies_its_files_are_ours(write_data_set, data, tmp_path, monkeypatch, written, is_first):
    """So many are written of the record, the list of pieces and the model; the shards are not replaced."""
    if is_first:
        data = write_data_set(tmp_path / "new", SOURCE, TARGET)
    save, done = vocab_record.replacing, []

    def dying(path):
        if len(done) == written:
            raise KeyboardInterrupt
        done.append(path.name)
        return save(path)

    def die(*arguments):
        raise KeyboardInterrupt

    for module in (vocab_record, vocab_pair):
        monkeypatch.setattr(module, "replacing", dying)
    monkeypatch.setattr("nmt.io.files.LockedFolder.put", die)
    monkeypatch.setattr("nmt.data.build.restoring", lambda *paths: nullcontext())
    with pytest.raises(KeyboardInterrupt):
        build_vocabulary(data, size=30, threads=1)
    monkeypatch.undo()
    assert len(done) == written
    assert set(ours(data)) == {path.name for path in vocabulary_kinds(data) if path.exists()}
    assert build_vocabulary(data, size=30, threads=1).vocab.source.size == 30
    assert not build_vocabulary(data, size=30, threads=1).changed


def test_a_file_that_an_earlier_vocabulary_left_goes(data):
    """A process died after the record was written, before the earlier files were removed."""
    fingerprint = read_index(data).vocab_fingerprint
    stale = data / "vocab.target.model"
    stale.write_bytes(USERS.model_bytes)
    path = DataFolder(data).vocab_record
    path.write_text(json.dumps(json.loads(path.read_text()) | {"replaced": [sha256_of(stale)]}))
    built = build_vocabulary(data, size=40, threads=1)
    assert built.changed and built.vocab.fingerprint == fingerprint
    assert not stale.exists()


def test_the_source_rule_goes_with_the_vocabulary(data, tmp_path):
    VocabularyPair.shared(USERS).save(tmp_path / "given.model")
    build_vocabulary(data, existing=tmp_path / "given.model", source_normalization="nmt_nfkc", threads=1)
    shutil.rmtree(data / "shards")
    built = build_vocabulary(data, existing=data / "vocab.model", threads=1)
    assert built.index.steps.rule == "nmt_nfkc"


def test_a_vocabulary_without_its_record_is_used_if_it_is_named(data):
    (data / "vocab.json").unlink()
    with pytest.raises(DataError, match=r"no record of its vocabulary. Run `nmt build-vocab .*--vocab .*vocab\.model`"):
        read_vocabulary_record(data)
    assert build_vocabulary(data, existing=data / "vocab.model", threads=1).record.is_given


def test_a_vocabulary_of_another_record_has_no_lineage(data):
    """A process died between the record and the model."""
    path = DataFolder(data).vocab_record
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"files": values["files"] | {"vocab.model": "0" * 64}}))
    with pytest.raises(DataError, match=r"is not the vocabulary that vocab\.json records"):
        encoded_record(data)


def test_what_is_restored_is_read_under_the_locks(data, monkeypatch):
    """Another process may finish its vocabulary while this one waits."""
    held = []

    def restoring(*paths):
        locks = (data / ".shards.nmt.lock", data.with_name(f".{data.name}.nmt.lock"))
        held.append([is_held(lock) for lock in locks])
        return nullcontext()

    monkeypatch.setattr("nmt.data.build.restoring", restoring)
    build_vocabulary(data, size=30, threads=1)
    assert held == [[True, True]]


def test_a_run_that_begins_while_text_is_encoded_keeps_its_data(data, monkeypatch):
    before, begun, write = contents(data), [], Encoding.write

    def check(folder, replaced):
        if begun:
            raise DataError("a run trains on it")

    monkeypatch.setattr(Encoding, "write", lambda *arguments: begun.append(True) or write(*arguments))
    with pytest.raises(DataError, match="a run trains on it"):
        build_vocabulary(data, size=30, threads=1, check_unused=check)
    assert begun and contents(data) == before


def test_a_data_set_in_a_folder_that_cannot_be_written_to_is_encoded(data, monkeypatch):
    """As a volume that is mounted: prepare-data, which would need the folder around it, is not kept away."""
    monkeypatch.setattr("nmt.data.build.os.access", lambda path, mode: False)
    monkeypatch.setattr("nmt.data.build.DATA_SET", None)  # no lock is taken
    assert build_vocabulary(data, size=30, threads=1).changed


def test_shards_that_name_no_text_are_damaged(data):
    path = data / "shards" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"text": {}}))
    with pytest.raises(DataError, match="lists other text than that of its splits"):
        read_index(data)


def test_sampled_shards_are_of_the_text_that_was_encoded(data, tmp_path):
    with (data / "train.en").open("a") as stream:
        stream.write("more\n")
    with (data / "train.de").open("a") as stream:
        stream.write("mehr\n")
    with pytest.raises(DataError, match=r"train\.en: was changed since it was encoded"):
        write_sampled_shards(
            data, tmp_path / "sampled", VocabularyPair.shared(USERS), Sampling(0.5, AugmentationConfig(), 1)
        )
    assert not (tmp_path / "sampled").exists()
