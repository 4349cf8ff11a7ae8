"""The text of benchmarks and of the doctor is made up, the same on every machine."""

import pytest

from nmt.bench.generated_pairs import generate_pairs
from nmt.text.lines import read_lines


@pytest.mark.slow
def test_generated_pairs_are_the_same_every_time(tmp_path):
    folders = [generate_pairs(tmp_path / name, 300) for name in ("a", "b")]
    assert len({(folder / "train.yy").read_bytes() for folder in folders}) == 1
    lines = list(read_lines(folders[0] / "train.xx"))
    words = [word for line in lines for word in line.lower().rstrip(".").split()]
    assert len(lines) == 300
    assert 23 < len(words) / len(lines) < 27
    assert words.count(max(words, key=words.count)) > len(words) / 25  # 1 / (1 + 1/2 + ... + 1/100,000) is 1 / 12
