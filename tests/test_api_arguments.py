"""What the functions of the Python API do with their arguments, and what they return."""

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

import nmt
from nmt.io.hashing import sha256_of


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("hypothesis", "ref.de", "-"):
        (tmp_path / name).write_text("Das Haus ist alt.\n", "utf-8")
    return tmp_path


def test_scores_are_recorded_with_the_files_as_they_were_read(here):
    read = sha256_of(here / "hypothesis")
    scored = nmt.score("hypothesis", reference="ref.de")
    (here / "hypothesis").write_text("Das Haus ist neu.\n", "utf-8")
    [hypothesis, _] = scored.record().made_from
    assert hypothesis.files == {".": read}


def test_nothing_is_recorded_of_standard_input_where_a_file_has_its_name(here, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"Das Haus ist alt.\n")))
    hypothesis, reference = nmt.score("-", reference="ref.de").record().made_from
    assert (hypothesis.path, hypothesis.files) == ("-", {})
    assert reference.files == {".": sha256_of(Path("ref.de"))}
