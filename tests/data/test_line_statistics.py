"""What the lines of a training text are like: of one data set, and of several together."""

import pytest

from nmt.data.line_statistics import line_statistics
from nmt.data.shards import ParallelShards
from nmt.data.vocab import train_vocabulary
from tests.data.one_data_set import write_shards

# The words a and b are a piece each.
VOCAB = train_vocabulary(["a b c d . x"] * 9, size=14, normalization="identity").vocab


def data_set(write_data_set, folder, source, target, max_pieces=90, vocab=VOCAB):
    data = write_data_set(folder, source, target)
    write_shards(data, vocab, max_pieces=max_pieces)
    return ParallelShards.open(data, "train")


def test_lengths_are_percentiles_of_the_lines_in_the_shards(write_data_set, tmp_path):
    source = [" ".join("a" * length) for length in range(1, 101)]
    data = data_set(write_data_set, tmp_path / "data", source, ["b b"] * 100)
    lines = line_statistics([data])
    assert lines.max_pieces == 90
    assert lines.source.sentences == (90,)
    assert lines.source.pieces.model_dump() == {"p50": 45, "p90": 81, "p99": 90, "p999": 90, "max": 90}
    assert lines.target.pieces.model_dump() == {"p50": 2, "p90": 2, "p99": 2, "p999": 2, "max": 2}


def test_the_ratio_is_of_target_pieces_to_source_pieces(write_data_set, tmp_path):
    data = data_set(write_data_set, tmp_path / "data", ["a b"] * 50, ["b"] * 3 + ["b b b"] * 44 + ["b b b b"] * 3)
    ratio = line_statistics([data]).target_per_source
    assert ratio.model_dump() == {"p1": 0.5, "p10": 1.5, "p50": 1.5, "p90": 1.5, "p99": 2.0}


def test_the_ratio_is_sampled_evenly_from_many_lines(write_data_set, tmp_path, monkeypatch):
    monkeypatch.setattr("nmt.data.line_statistics._MAX_RATIOS", 10)
    targets = ["b" if line % 5 else "b b b b" for line in range(50)]  # every fifth line is another
    ratio = line_statistics([data_set(write_data_set, tmp_path / "data", ["a b"] * 50, targets)]).target_per_source
    assert ratio.model_dump() == {"p1": 2, "p10": 2, "p50": 2, "p90": 2, "p99": 2}


def test_of_several_data_sets_the_lines_are_summed(write_data_set, tmp_path, monkeypatch):
    one = data_set(write_data_set, tmp_path / "one", ["Do ra. Mi fa.", "Do ra.", "Do ra."], ["X", "X", "X"])
    # Of the second only every other pair is counted: the counts stand for all of them.
    monkeypatch.setattr("nmt.data.shard_writing.SENTENCES_COUNTED", 4)
    two = data_set(write_data_set, tmp_path / "two", ["Do ra. Mi fa. So la."] * 8, ["X"] * 8)
    lines = line_statistics([one, two])
    assert lines.source.sentences == (2, 1, 8)
    assert lines.target.sentences == (11,)
    assert lines.source.pieces.max == line_statistics([two]).source.pieces.max


def test_the_share_of_decomposed_lines_is_of_those_that_have_another_form(write_data_set, tmp_path):
    sources = ["a", "\u4e2d", "\u00e4", "\u00e9 e\u0301", "u\u0308", "\u0958"]
    lines = line_statistics([data_set(write_data_set, tmp_path / "data", sources, ["\u00e4"] * 6)])
    assert (lines.source.decomposed, lines.source.are_composed) == (0.75, False)
    assert (lines.target.decomposed, lines.target.are_composed) == (0, True)


@pytest.mark.parametrize("limits", [(90, 30), (30, 90)])
def test_the_limit_of_several_data_sets_is_the_largest(write_data_set, tmp_path, limits):
    folders = [data_set(write_data_set, tmp_path / f"{limit}", ["a"], ["b"], limit) for limit in limits]
    assert line_statistics(folders).max_pieces == 90


def test_of_no_pair_nothing_is_known(write_data_set, tmp_path):
    assert line_statistics([data_set(write_data_set, tmp_path / "data", [""], ["x"])]) is None


def test_the_share_of_bytes_is_of_all_pieces(write_data_set, tmp_path):
    vocab = train_vocabulary(["a b"] * 9, size=300, byte_fallback=True).vocab
    parts = [
        data_set(write_data_set, tmp_path / name, ["a b"] * 5, [target] * 5, vocab=vocab)
        for name, target in (("one", "a ☃"), ("two", "b b"))
    ]
    lines = line_statistics(parts)
    pieces = sum(len(ids) for ids in vocab.encode(["a ☃", "b b"]))
    assert (lines.source.byte_pieces, lines.target.byte_pieces) == (0, round(3 / pieces, 7))
