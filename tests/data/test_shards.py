"""Shards: what is written is read, what is too long is counted, and what does not match is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from nmt.data.batching import collate
from nmt.data.build import BuiltVocabulary, normalization_changes, warnings
from nmt.data.build import build_vocabulary as build_vocabularies
from nmt.data.shard_index import VERSION, ShardIndex, SplitStatistics, read_index
from nmt.data.shards import ParallelShards
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.data.vocab_record import VocabularyRecord
from nmt.errors import DataError
from nmt.text.steps import MosesPunctuation, Nfc, TextSteps
from tests.data.one_data_set import are_current, build_vocabulary, write_shards

SOURCE = ["one two", "three", "one two three four five six seven eight", "two"]
TARGET = ["eins zwei", "drei", "eins zwei drei", "zwei"]
VOCAB = train_vocabulary(SOURCE + TARGET, size=40).vocab
PAIR = VocabularyPair.shared(VOCAB)


@pytest.fixture
def data_set(write_data_set):
    """Write the small data set, or one with other lines."""

    def write(folder: Path, *, source=SOURCE, target=TARGET, **options) -> Path:
        return write_data_set(folder, source, target, **options)

    return write


def test_pairs_come_back_as_they_were_encoded(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    index = write_shards(data, VOCAB)
    shards = ParallelShards.open(data, "train")
    assert len(shards) == index.splits["train"].pairs == 4
    for i, (source, target) in enumerate(zip(VOCAB.encode(SOURCE), VOCAB.encode(TARGET), strict=True)):
        assert shards.pair(i)[0].tolist() == source
        assert shards.pair(i)[1].tolist() == target
        assert (shards.source_lengths[i], shards.target_lengths[i]) == (len(source), len(target))
    assert shards.pair(0)[0].dtype == np.uint16
    assert shards.index == index


def test_long_pairs_are_left_out_and_counted(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    limit = len(VOCAB.encode([SOURCE[2]])[0]) - 1
    index = write_shards(data, VOCAB, max_pieces=limit)
    assert (index.splits["train"].pairs, index.splits["train"].too_long) == (3, 1)
    assert ParallelShards.open(data, "train").pair(2)[0].tolist() == VOCAB.encode([SOURCE[3]])[0]


def test_a_batch_has_bos_and_eos_where_they_belong(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    write_shards(data, VOCAB)
    batch = collate(ParallelShards.open(data, "train"), np.array([1, 2]))
    sources, targets = VOCAB.encode([SOURCE[1], SOURCE[2]]), VOCAB.encode([TARGET[1], TARGET[2]])
    assert batch.source_M.tolist() == [*sources[0], 3, *sources[1], 3]
    assert batch.target_input_N.tolist() == [2, *targets[0], 2, *targets[1]]
    assert batch.target_output_N.tolist() == [*targets[0], 3, *targets[1], 3]
    assert batch.target_tokens == len(targets[0]) + len(targets[1]) + 2
    assert batch.source_M.dtype == np.int64


def test_a_valid_source_is_normalised_as_translate_will_do(data_set, tmp_path):
    composed, decomposed = "sch\u00f6n", "scho\u0308n"
    vocab = train_vocabulary([composed, decomposed, "schon"] * 4, size=30, normalization="identity").vocab
    data = data_set(tmp_path / "data", source_text=(Nfc(),), source=[decomposed], target=["x"])
    write_shards(data, vocab)
    assert ParallelShards.open(data, "valid").pair(0)[0].tolist() == vocab.encode([composed])[0]


def test_punctuation_of_a_valid_source_follows_the_rules_of_its_own_language(data_set, tmp_path):
    """English puts a comma before the closing mark, German after it."""
    written, english = 'a "b", c', 'a "b," c'
    vocab = train_vocabulary([written, english] * 4, size=20, normalization="identity").vocab
    data = data_set(
        tmp_path / "data", source_text=(MosesPunctuation(language="en"),), source=[written], target=[written]
    )
    write_shards(data, vocab)
    valid = ParallelShards.open(data, "valid").pair(0)
    assert [ids.tolist() for ids in valid] == [vocab.encode([english])[0], vocab.encode([written])[0]]


def test_a_source_rule_changes_the_source_of_train_and_valid_alone(data_set, tmp_path):
    data = data_set(tmp_path / "data", source=["5 m² Ａ"] * 4, target=["5 m² Ａ"] * 4)
    built = build_vocabulary(data, size=40, source_normalization="nmt_nfkc")
    assert read_index(data).steps.rule == "nmt_nfkc"
    for split in ("train", "valid"):
        source, target = (built.vocab.source.decode([ids.tolist()]) for ids in ParallelShards.open(data, split).pair(0))
        assert (source, target) == (["5 m2 A"], ["5 m² Ａ"])
    changes = normalization_changes(built)
    assert list(changes) == ["source"]
    assert [str(example) for example in changes["source"].examples] == ["²→2 (4 times)", "Ａ→A (4 times)"]
    # Another data set that takes the vocabulary takes the rule with it.
    other = data_set(tmp_path / "other")
    assert build_vocabulary(other, existing=data / "vocab.model").index.steps.rule == "nmt_nfkc"
    assert not are_current(other, built.vocab, 256, "identity")


def test_only_a_normaliser_that_was_chosen_is_reported(data_set, tmp_path):
    data = data_set(tmp_path / "data", source=["m² a b c"] * 4, target=["x"] * 4)
    assert normalization_changes(build_vocabulary(data, size=30)) == {}
    changes = normalization_changes(build_vocabulary(data, size=30, normalization="nmt_nfkc"))
    assert {side: found.changed for side, found in changes.items()} == {"source": 4, "target": 0}
    other = data_set(tmp_path / "other", source=["x"] * 4, target=["½ m"] * 4)
    assert list(normalization_changes(build_vocabulary(other, existing=data / "vocab.model"))) == ["target"]


def test_each_side_is_asked_for_its_own_normaliser(data_set, tmp_path):
    plain, normalizing = (
        train_vocabulary(["½ m² a b"], size=20, normalization=rule).vocab for rule in ("identity", "nmt_nfkc")
    )
    for source, target, side in ((normalizing, plain, "source"), (plain, normalizing, "target")):
        path = tmp_path / f"{side}.model"
        VocabularyPair(source, target).save(path)
        data = data_set(tmp_path / side, source=["½ m²"] * 4, target=["½ m²"] * 4)
        assert list(normalization_changes(build_vocabulary(data, existing=path))) == [side]


def test_bytes_are_counted(data_set, tmp_path):
    vocab = train_vocabulary(SOURCE + TARGET, size=310, byte_fallback=True).vocab
    data = data_set(tmp_path / "data", source=["é one", *SOURCE[1:]])
    written = write_shards(data, vocab).splits["train"].sides
    assert [written[side].byte_pieces for side in ("source", "target")] == [2, 0]


def test_shards_know_whether_they_are_current(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    assert not are_current(data, PAIR, 256)
    write_shards(data, VOCAB)
    assert are_current(data, PAIR, 256)
    assert not are_current(data, PAIR, 100)
    assert not are_current(data, VocabularyPair.shared(train_vocabulary(SOURCE, size=30).vocab), 256)
    data_set(data, source=["other", "text", "of", "four"])
    assert not are_current(data, PAIR, 256)


def test_sentences_of_the_pairs_in_the_shards_are_counted(data_set, tmp_path):
    source = ["One two. Three.", "Two", "One two. Two! Three?", "One two three four five six seven eight. Two."]
    data = data_set(tmp_path / "data", source=source, target=["Eins.", "Zwei.", "Eins. Zwei.", "Drei."])
    limit = max(map(len, VOCAB.encode(source[:3])))
    index = write_shards(data, VOCAB, max_pieces=limit)
    assert index.splits["train"].too_long == 1
    assert index.splits["train"].sides["source"].sentences == [1, 1, 1]
    assert index.splits["train"].sides["target"].sentences == [2, 1]
    assert index.splits["valid"].sides["source"].sentences is None
    assert read_index(data) == index


def test_of_many_lines_so_many_spread_evenly_are_counted(data_set, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.data.shard_writing.SENTENCES_COUNTED", 10)
    monkeypatch.setattr("nmt.data.shard_writing._CHUNK_PAIRS", 7)
    source = ["One."] * 12 + ["One. Two."] * 12 + ["One. Two. Three."] * 4
    data = data_set(tmp_path / "data", source=source, target=["Eins."] * 28)
    assert write_shards(data, VOCAB).splits["train"].sides["source"].sentences == [4, 4, 2]


def test_damaged_or_missing_shards_are_refused(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    with pytest.raises(DataError, match="nmt build-vocab"):
        ParallelShards.open(data, "train")
    write_shards(data, VOCAB)
    tokens = data / "shards" / "train.source.tokens"
    tokens.write_bytes(tokens.read_bytes()[:-2])
    with pytest.raises(DataError, match="damaged"):
        ParallelShards.open(data, "train")
    index = data / "shards" / "index.json"
    index.write_text(json.dumps({"version": 99}))
    with pytest.raises(DataError, match="version 99"):
        ParallelShards.open(data, "train")


def test_an_error_leaves_the_old_shards(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    write_shards(data, VOCAB)
    (data / "valid.de").write_bytes(b"one line\n")
    with pytest.raises(DataError, match="parallel"):
        write_shards(data, VOCAB)
    assert len(ParallelShards.open(data, "train")) == 4
    assert not list(data.glob(".*"))


def test_build_vocabulary_does_nothing_twice_and_takes_an_existing_model(data_set, tmp_path):
    data = data_set(tmp_path / "data")
    first = build_vocabulary(data, size=40)
    assert first.changed
    assert not build_vocabulary(data, size=40).changed
    again = build_vocabulary(data, size=40, max_pieces=100)
    assert again.changed
    assert again.trained is None  # Other shards, but nothing to train.
    assert build_vocabulary(data, size=40, max_pieces=100, model_type="unigram").trained is not None
    (data / "vocab.model").unlink()
    assert build_vocabulary(data, size=40).trained is not None
    other = data_set(tmp_path / "other")
    built = build_vocabulary(other, existing=data / "vocab.model")
    assert built.trained is None
    assert built.vocab.fingerprint == first.vocab.fingerprint
    assert (other / "vocab.model").read_bytes() == (data / "vocab.model").read_bytes()


def test_every_setting_of_a_vocabulary_reaches_its_training(data_set, tmp_path, monkeypatch):
    asked = {
        "size": 310, "model_type": "unigram", "character_coverage": 0.99, "normalization": "nfkc",
        "byte_fallback": True,
    }  # fmt: skip
    given = {}

    def train(lines, **settings):
        given.update(settings)
        return train_vocabulary(lines, **settings)

    monkeypatch.setattr("nmt.data.build.train_vocabulary", train)
    built = build_vocabulary(data_set(tmp_path / "data"), **asked)
    assert given == asked | {"silent": []}
    assert asked.items() <= built.record.settings.items()


def test_the_source_rule_of_a_data_set_goes_with_its_own_vocabulary_alone(data_set, tmp_path):
    first, second = data_set(tmp_path / "first"), data_set(tmp_path / "second")
    build_vocabulary(first, size=40, source_normalization="nmt_nfkc_cf")
    given = first / "vocab.model"
    assert build_vocabulary(second, existing=given).index.steps.rule == "nmt_nfkc_cf"
    VocabularyPair.shared(train_vocabulary(SOURCE + TARGET, size=36).vocab).save(given)
    assert build_vocabulary(second, existing=given).index.steps.rule == "identity"


def test_an_unfit_vocabulary_warns(data_set, tmp_path):
    assert warnings(build_vocabulary(data_set(tmp_path / "fit"), size=60)) == []
    path = tmp_path / "foreign.model"
    VocabularyPair.shared(train_vocabulary(["абв где жз", "где абв"], size=20).vocab).save(path)
    found = warnings(build_vocabulary(data_set(tmp_path / "unfit"), existing=path))
    assert any("unknown" in message for message in found)


def with_statistics(data, split, side, **counts):
    """A built vocabulary whose training text has these statistics, in one of its sides."""
    train = SplitStatistics(**({"pairs": 1_000} | split))
    vars(train.sides[side]).update({"words": 500, "pieces": 1_000} | counts)
    index = ShardIndex(
        VERSION, PAIR.fingerprint, "", "en", "de", (), 77, False, TextSteps(), {}, None, "uint16", 40,
        {"train": train}, {},
    )  # fmt: skip
    return BuiltVocabulary(data, PAIR, VocabularyRecord.of_given(()), index, changed=True)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("split", "counts", "expected"),
    [
        ({}, {"unknown": 1, "byte_pieces": 20}, None),
        ({}, {"unknown": 2}, "0.20% of the {side} pieces are unknown"),
        ({}, {"byte_pieces": 21}, "2.10% of the {side} pieces are single bytes"),
        ({}, {"words": 300, "pieces": 900}, None),
        ({}, {"words": 250, "pieces": 900}, "3.6 pieces per {side} word"),
        ({"pairs": 980, "too_long": 10, "empty": 10}, {}, None),
        ({"pairs": 979, "too_long": 11, "empty": 10}, {}, "11 of 1,000 training pairs are longer than 77 pieces"),
    ],
)
def test_statistics_out_of_the_ordinary_are_told(tmp_path, side, split, counts, expected):
    found = warnings(with_statistics(tmp_path, split, side, **counts))
    assert len(found) == (expected is not None)
    assert all(message.startswith(expected.format(side=side)) for message in found)


def test_ids_of_the_larger_side_are_allowed(data_set, tmp_path):
    """In a data set whose sides have vocabularies of two sizes."""
    small = train_vocabulary(SOURCE, size=24).vocab
    for source, target in ((small, VOCAB), (VOCAB, small)):
        pair = VocabularyPair(source, target)
        data = data_set(tmp_path / f"{source.size}")
        index = write_shards(data, pair)
        assert small.size < index.vocab_size == VOCAB.size
        assert are_current(data, pair, 256)


def test_the_steps_of_a_given_vocabulary_are_done_to_both_sides(data_set, tmp_path):
    composed, decomposed = "sch\u00f6n", "scho\u0308n"
    vocab = VocabularyPair.shared(train_vocabulary([composed, decomposed] * 4, size=30).vocab)
    vocab.save(tmp_path / "given.model")
    data = data_set(tmp_path / "data", source=[decomposed], target=[decomposed])
    steps = TextSteps((Nfc(),), (Nfc(),))
    build_vocabularies([data], existing=tmp_path / "given.model", existing_steps=steps, threads=1)
    [wanted] = vocab.source.encode([composed])
    assert [list(side) for side in ParallelShards.open(data, "train").pair(0)] == [wanted, wanted]
