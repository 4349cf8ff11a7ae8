"""What the functions of the Python API do with their arguments, and what they return."""

import inspect
import io
from pathlib import Path
from types import SimpleNamespace
from typing import get_type_hints
from unittest.mock import Mock

import pytest

import nmt
from nmt.config import Config
from nmt.io.hashing import sha256_of

FUNCTIONS = {name: getattr(nmt, name) for name in nmt.__all__ if inspect.isfunction(getattr(nmt, name))}
LISTS = [
    (name, argument)
    for name, function in FUNCTIONS.items()
    for argument, kind in get_type_hints(getattr(function, "__wrapped__", function), include_extras=True).items()
    if "several" in str(kind)
]


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


@pytest.mark.parametrize("value", [5, [5], [None], {"a": 1}, b"text"])
@pytest.mark.parametrize(("function", "argument"), LISTS)
def test_a_list_of_anything_else_is_refused_by_name(here, function, argument, value):
    given = {"hypothesis": "hypothesis", "target": "target"} | {argument: value}
    known = inspect.signature(FUNCTIONS[function]).parameters
    with pytest.raises(nmt.NmtError, match=rf"^{function}: {argument}[.0-9]*: "):
        FUNCTIONS[function](**{name: each for name, each in given.items() if name in known})


@pytest.mark.parametrize("sheet", [True, False])
@pytest.mark.parametrize("nothing", [[], None])
def test_without_a_hypothesis_nothing_is_scored(here, nothing, sheet):
    with pytest.raises(nmt.NmtError, match=r"^hypothesis: give a file"):
        nmt.score(nothing, reference="ref.de", sheet=sheet)


@pytest.mark.parametrize(
    ("method", "argument", "value"),
    [
        *(("translate", "lines", value) for value in (None, 5, "text")),
        *(("translate", "prefixes", value) for value in (5, "text")),
        *(("score", argument, value) for argument in ("lines", "targets") for value in (None, 5, "text")),
    ],
)
def test_lines_that_are_no_list_are_refused_by_name(method, argument, value):
    config = Config.model_validate({"data": {"source_lang": "en", "target_lang": "de"}})
    engine = Mock(config=config, positions=100)
    engine.searcher.return_value.batch_tokens = 100
    given = {"lines": ["a"]} | ({"targets": ["b"]} if method == "score" else {}) | {argument: value}
    with pytest.raises(nmt.NmtError, match=rf"^{argument}: expected a list of texts, got "):
        getattr(nmt.Model(engine), method)(**given)
