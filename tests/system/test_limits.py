"""Input that is too long: every command that reads text says where it is, and what the limit is."""

import gzip

import pytest

from nmt.errors import DataError
from nmt.text import lines as text
from tests.data.one_data_set import build_vocabulary

ENDLESS = gzip.compress(b"a\n" + b"a" * 30_000_000, 1)
MESSAGE = "line 2: the line is longer than 4,194,304 bytes, the maximum"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "endless.en.gz").write_bytes(ENDLESS)
    (tmp_path / "endless.de").write_text("ein\nzwei\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "score --reference endless.de endless.en.gz",
        "score --reference endless.en.gz endless.de",
        "prepare-data own --source-lang en --target-lang de --train endless --valid endless",
    ],
)
def test_a_line_without_end_is_an_error_with_its_place(command, folder, nmt):
    result = nmt(*command.split(), cwd=folder, check=False)
    assert result.returncode == 2
    assert f"endless.en.gz, {MESSAGE}" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_build_vocab_refuses_it_too(folder, nmt, monkeypatch):
    for name, lines in {"own": "one and two\nthree and four\nfive and six\n", "valid": "seven\n"}.items():
        (folder / f"{name}.en").write_text(lines)
        (folder / f"{name}.de").write_text(lines.replace("o", "ö"))
    languages = ["--source-lang", "en", "--target-lang", "de"]
    nmt("prepare-data", "own", *languages, "--train", "own", "--valid", "valid", cwd=folder)
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 10)
    with pytest.raises(DataError, match=r"train\.en, line 1: the line is longer than 10 bytes"):
        build_vocabulary(folder / "data/own")
