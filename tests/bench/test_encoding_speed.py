"""The benchmark of encoding: all encode the same text, and ours is measured beside both others."""

import numpy as np
import pytest

from nmt.bench.encode_worker import DATA, MODEL, _with_files
from nmt.bench.encoding_speed import bench_encode
from nmt.bench.generated_pairs import generate_pairs
from nmt.data.vocab import train_vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.text import read_lines
from tests.training.conftest import make_data_set


@pytest.mark.slow
def test_generated_pairs_are_the_same_every_time(tmp_path):
    folders = [generate_pairs(tmp_path / name, 300) for name in ("a", "b")]
    assert len({(folder / "train.yy").read_bytes() for folder in folders}) == 1
    lines = list(read_lines(folders[0] / "train.xx"))
    words = [word for line in lines for word in line.lower().rstrip(".").split()]
    assert len(lines) == 300
    assert 23 < len(words) / len(lines) < 27
    assert words.count(max(words, key=words.count)) > len(words) / 25  # 1 / (1 + 1/2 + ... + 1/100,000) is 1 / 12


def test_all_contestants_encode_the_same_pieces():
    reported = []
    result = bench_encode(pairs=200, size=400, threads=2, rounds=2, report=reported.append)
    assert len(reported) == 6
    names = ("nmt", "sentencepiece", "sentencepiece with files")
    assert all(len(result[name]["rounds"]) == 2 for name in names)
    assert len({result[name]["pieces"] for name in names}) == 1
    assert result["nmt"]["pieces"] > 200 * 2 * 23
    ratios = [ours / other for ours, other in zip(*(result[name]["rounds"] for name in names[:2]), strict=True)]
    assert result["sentencepiece"]["ratio"] == sum(ratios) / 2


def with_pieces(model: bytes, count: int) -> bytes:
    """A unigram model with further pieces: the field ``pieces`` of its message, again and again."""
    texts = (f"\u2581piece{number}".encode() for number in range(count))
    pieces = (b"\x0a" + bytes([len(text)]) + text + b"\x15" + np.float32(-1).tobytes() for text in texts)
    return model + b"".join(b"\x0a" + bytes([len(piece)]) + piece for piece in pieces)


@pytest.mark.parametrize(("pieces", "dtype"), [(100, np.uint16), (70_000, np.uint32)])
def test_the_loop_with_files_holds_every_id(tmp_path, pieces, dtype):
    data = make_data_set(tmp_path / DATA)
    (data / "train.en").write_text(f"piece{pieces - 1}\n" * 3)
    (data / "train.de").write_text("piece7\n" * 3)
    small = train_vocabulary(["a b c d e f piece 0123456789"] * 9, size=30, model_type="unigram").vocab
    (tmp_path / MODEL).write_bytes(with_pieces(small.model_bytes, pieces))
    vocab = VocabularyPair.load(tmp_path / MODEL).source
    count = _with_files(tmp_path, 1)()
    assert count() == 6
    last, seventh = vocab.ids([f"\u2581piece{pieces - 1}", "\u2581piece7"])
    assert last == vocab.size - 1
    # The file is written for each side anew.
    assert np.fromfile(tmp_path / "ids", dtype).tolist() == [seventh] * 3
