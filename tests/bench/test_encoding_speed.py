"""The benchmark of encoding: all encode the same text, and ours is measured beside both others."""

from nmt.bench.encoding_speed import bench_encode
from nmt.bench.generated_pairs import generate_pairs
from nmt.text import read_lines


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
