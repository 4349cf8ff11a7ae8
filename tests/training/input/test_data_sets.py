"""The data of a run, checked when it is opened."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from nmt.config import parse_config, parse_layers, setting_layer
from nmt.data.manifest import read_manifest
from nmt.data.shard_index import read_index
from nmt.errors import ConfigError, DataError
from nmt.training.input import data_sets
from nmt.training.input.data_sets import DataSets, TrainingData, why_empty
from nmt.training.ranks.exchange import Ranks
from tests.data.one_data_set import build_vocabulary
from tests.training.conftest import SETTINGS, make_data_set


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data_set(tmp_path_factory.mktemp("opened") / "data", pairs=40)


def config(data, **changes):
    index = read_index(data)
    recorded = {"vocab_fingerprint": index.vocab_fingerprint, "fingerprint": index.data_fingerprint}
    return parse_config(yaml.safe_load(SETTINGS) | {"data": recorded | changes}, name="settings")


def test_shards_of_the_recorded_text_are_opened(data):
    assert len(TrainingData.open([data], config(data)).shards) == 40


def test_shards_of_another_text_are_refused(data):
    """The manifest tells what the text is now, the shards of what text they were made."""
    with pytest.raises(DataError, match=r"its text has changed since it was encoded.*nmt build-vocab"):
        TrainingData.open([data], config(data, fingerprint="0" * 64))


def test_sentences_beyond_the_positions_are_refused_with_the_command_that_leaves_them_out(data):
    few = config(data)
    few = few.model_copy(update={"model": few.model.model_copy(update={"max_positions": 3})})
    command = f"`nmt build-vocab --data {data} --vocab {data / 'vocab.model'} --max-pieces 2`"
    with pytest.raises(ConfigError, match=rf"model\.max_positions is 3, .*{re.escape(command)}"):
        TrainingData.open([data], few)


def test_pairs_that_the_limit_of_pieces_left_out_are_missed_by_that_name(copied):
    vocab = copied / "vocab.model"
    for path in (copied / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")):
        path.write_text(path.read_text().replace("\n", " ba\n"))  # at least two pieces
    build_vocabulary(copied, existing=vocab, max_pieces=1, threads=1)
    allow = re.escape(f"`nmt build-vocab --data {copied} --vocab {vocab} --max-pieces N`")
    counted = (
        r"no training pair is left. A side of 40 has more than 1 pieces, and a side of 0 has none. Allow more with "
    )
    with pytest.raises(DataError, match=counted + allow):
        TrainingData.open([copied], config(copied))
    assert "more than 1 pieces" in why_empty(read_index(copied), copied, "valid", vocab)
    build_vocabulary(copied, existing=vocab, max_pieces=256, threads=1)
    assert len(TrainingData.open([copied], config(copied)).shards) == 40


@pytest.mark.parametrize(
    ("lost", "words"), [({"empty": 4}, "and a side of 4 has none"), ({}, "See the counts of filters")]
)
def test_other_pairs_that_are_missing_are_not_blamed_on_the_limit(data, lost, words):
    index = read_index(data)
    split = replace(index.splits["train"], pairs=0, **lost)
    assert words in why_empty(replace(index, splits={"train": split}), data, "train", data / "vocab.model")


@pytest.fixture
def copied(data, tmp_path):
    """A copy of the data set, to edit."""
    return shutil.copytree(data, tmp_path / "copied")


def test_text_that_was_edited_after_it_was_encoded_is_refused(copied):
    data = copied
    (data / "train.en").write_text("hallo\n" + (data / "train.en").read_text().split("\n", 1)[1])
    with pytest.raises(DataError, match=r"train\.en changed after the text was encoded.*nmt build-vocab"):
        TrainingData.open([data], config(data))
    build_vocabulary(data, existing=data / "vocab.model", threads=1)
    assert len(TrainingData.open([data], config(data)).shards) == 40


def test_text_that_is_no_longer_parallel_is_not_sent_to_be_encoded(copied):
    data = copied
    with (data / "train.en").open("a") as stream:
        stream.write("hallo\n")
    with pytest.raises(DataError, match=r"must be parallel.*nmt prepare-data") as refused:
        TrainingData.open([data], config(data, vocab_fingerprint="0" * 64))
    assert "build-vocab" not in str(refused.value)


def test_shards_of_a_mixed_data_set_are_compared_with_its_own_text(data, tmp_path):
    other = make_data_set(tmp_path / "other", pairs=30, seed=1)
    build_vocabulary(other, existing=data / "vocab.model", threads=1)
    part = {"name": "other", "weight": 1.0, "fingerprint": read_manifest(other).fingerprint}
    assert len(TrainingData.open([data, other], config(data, mixed_with=[part])).shards) == 70
    part["fingerprint"] = read_manifest(data).fingerprint
    with pytest.raises(DataError, match=r"other: its text has changed"):
        TrainingData.open([data, other], config(data, mixed_with=[part]))


def test_a_data_set_alone_has_its_weight_too(data):
    assert TrainingData.open([data], config(data, weight=2.5)).epoch_size()[0] == 100


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("1, 2", r"after 5 updates needs a weight for each data set.* sets: 1; weights: 2"),
        ("1e-9", r"after 5 updates: with the weights 1e-09, an epoch may have no pair \(pairs: 40\)"),
    ],
)
def test_the_weights_of_a_stage_are_checked_before_the_first_update(data, weights, message):
    few = config(data)
    stages = parse_layers([setting_layer(f"training.stages=[{{after: 5, weights: [{weights}]}}]")]).training.stages
    few = few.model_copy(update={"training": few.training.model_copy(update={"stages": stages})})
    with pytest.raises(ConfigError, match=message):
        TrainingData.open([data], few)


def test_shards_of_another_vocabulary_are_refused(data):
    with pytest.raises(
        DataError, match=r"was encoded with another vocabulary than .* Run `nmt build-vocab --data \S+ --v"
    ):
        TrainingData.open([data], config(data, vocab_fingerprint="0" * 64))


def test_data_sets_that_have_vocabularies_of_their_own_are_advised_to_share_one(data, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(data, other)
    build_vocabulary(other, size=60, threads=1)
    advice = (
        f"`nmt build-vocab --data {other} --vocab {data / 'vocab.model'}`, or for a vocabulary of both with "
        f"`--data {data}` in place of `--vocab`."
    )
    sets = DataSets.open([(data, 1.0), (other, 1.0)])
    with pytest.raises(DataError, match=re.escape(f"Run {advice}")):
        TrainingData.of(sets, parse_config({"data": sets.settings()}, name="test"))


def test_one_rank_of_each_machine_writes_sampled_shards_into_a_folder_of_that_machine(data, tmp_path, monkeypatch):
    """Two machines with two ranks each: those that share a folder wait for its writer."""
    made = []

    class Noted:
        def __init__(self, data, folder, vocab, sampling, *, writer, keep, **options) -> None:
            made.append((folder.relative_to(tmp_path), writer, keep > 0))

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(data_sets, "SampledEpochs", Noted)
    sampling = config(data)
    sampling = sampling.model_copy(update={"training": sampling.training.model_copy(update={"subword_sampling": 0.1})})
    opened = TrainingData.open([data], sampling)
    for ranks in (Ranks(0, 4, 0, 2), Ranks(1, 4, 1, 2), Ranks(2, 4, 0, 2), Ranks(3, 4, 1, 2), Ranks()):
        monkeypatch.setattr(data_sets.socket, "gethostname", lambda ranks=ranks: f"machine-{ranks.rank // 2}")
        with opened.epochs(tmp_path, ranks):
            pass
    folders = [Path("sampled") / f"machine-{number}" / "1-data" for number in (0, 0, 1, 1, 0)]
    assert [folder for folder, _, _ in made] == folders
    assert [writer for _, writer, _ in made] == [True, False, True, False, True]
    assert [keeps for _, _, keeps in made] == [True] * 4 + [False]  # an epoch for a rank that is behind


@pytest.mark.parametrize(
    ("temperature", "weights"), [(1.0, (1, 1, 1)), (1e9, (0.75, 0.75, 1.5)), (2.0, (0.88, 0.88, 1.24))]
)
def test_directions_are_balanced_by_temperature(data, tmp_path, temperature, weights):
    """Two data sets of one direction with 80 pairs, and one of the other with 40."""
    other = shutil.copytree(data, tmp_path / "other")
    manifest = (other / "manifest.json").read_text()
    (other / "manifest.json").write_text(manifest.replace('"de"', '"fr"'))
    sets = DataSets.open([(data, 1.0), (data, 1.0)])
    sets = replace(sets, folders=(data, data, other), weights=(1, 1, 1), parts=(*sets.parts, sets.parts[0]))
    assert sets.balanced(temperature).weights == pytest.approx(weights, abs=0.02)
