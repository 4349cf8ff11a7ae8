"""What the functions of the Python API do with their arguments, and what they return."""

import inspect
import io
import re
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner

import nmt
from nmt.api.arguments import naming_arguments
from nmt.cli.app import app
from nmt.config import Config
from nmt.io.hashing import sha256_of
from nmt.option_fields import option_parameters

FUNCTIONS = {name: getattr(nmt, name) for name in nmt.__all__ if inspect.isfunction(getattr(nmt, name))}
LISTS = [
    (name, field.name) for name, function in FUNCTIONS.items() for field in option_parameters(function) if field.is_list
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
    needed = ("hypothesis", "target", "dataset", "mono", "memory", "model", "valid", "test")
    if argument in ("set", "filter") and isinstance(value, dict):  # which may be a mapping, but hold none
        value = [value]
    given = {name: name for name in needed} | {argument: value}
    known = inspect.signature(FUNCTIONS[function]).parameters
    with pytest.raises(nmt.NmtError, match=rf"^{function}: {argument}[.0-9]*: "):
        FUNCTIONS[function](**{name: each for name, each in given.items() if name in known})


def test_settings_may_be_a_mapping_and_words_a_list(here):
    for side, word in (("en", "house"), ("de", "Haus")):
        (here / f"{side}.txt").write_text("".join(f"{word} {number}\n" for number in range(60)))
    filters = {"max_words": None, "letters": 0.4, "html": True}
    prepared = nmt.prepare_data("mine-en-de", train=["en.txt", "de.txt"], filter=filters)
    found = prepared.recipe.filters
    assert (found.max_words, found.letters, found.html) == (None, 0.4, True)
    trained = nmt.train(preset="tiny", show_settings=True, set={"model.dropout": 0.3, "training.freeze": ["encoder.*"]})
    assert (trained.config.model.dropout, trained.config.training.freeze) == (0.3, ("encoder.*",))
    with pytest.raises(nmt.NmtError, match=r"^`columns`: only for tab-separated text"):
        nmt.prepare_data("mine-en-de", train=["en.txt", "de.txt"], columns=["en", "de"])


def test_an_argument_that_was_given_by_its_place_is_named(here):
    with pytest.raises(nmt.NmtError, match=r"^build_vocab: data: expected a list"):
        nmt.build_vocab(5)
    with pytest.raises(nmt.NmtError, match=r"^build_vocab: data\.1: "):
        nmt.build_vocab(["data/a", 5])
    with pytest.raises(nmt.NmtError, match=r"^build_vocab: size: [Uu]nexpected positional argument"):
        nmt.build_vocab("data/a", 500)


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
        getattr(nmt.Model([engine]), method)(**given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nmt.build_vocab(size=0), "build_vocab: size: must be at least 1, got 0."),
        (lambda: nmt.train(presets="tiny"), "train: there is no argument presets; did you mean preset?"),
        (lambda: nmt.score_target("in"), "score_target: target is missing."),
        (lambda: nmt.score("x", reference="y", metric="bleurt"), "score: metric.0: expected 'bleu', 'chrf', "),
        (lambda: nmt.translate_file("in", beam=0), "beam: must be at least 1, got 0."),
        (lambda: nmt.translate_file("in", beem=2), "translate_file: there is no argument beem; did you mean beam?"),
        (
            lambda: nmt.translate_file("in", input_format="paragraphs", prefix="p"),
            "`prefix` only goes with `input_format` lines.",
        ),
        (lambda: nmt.prepare_data("toy"), "there is no built-in data set 'toy'"),
        (lambda: nmt.prepare_data("hypothesis", train="ref.de"), "your own text needs a name for its data set, which "),
        (lambda: nmt.train(resume="r", out="o"), "`out` does not go with `resume`, which takes"),
        (
            lambda: nmt.serve(host="0.0.0.0"),
            "`host` 0.0.0.0: other machines can connect. Give `api_keys` FILE, or `public=True` to ",
        ),
        (lambda: nmt.average_checkpoints(last=2, best=2), "`last` and `best` were both given: give one."),
        (lambda: nmt.translate_file("in", beam=2, nbest=3), "`nbest` 3 needs `beam` of at least 3, got 2."),
        (lambda: nmt.score_target("in", target="t", beam=9), "score_target: there is no argument beam."),
        (
            lambda: nmt.score_target("in", target="t", length_penalty="x"),
            "`length_penalty`: expected a number, got 'x'",
        ),
        (
            lambda: nmt.prepare_data(train="x"),
            "your own text needs a name for its data set, which comes first. Example: nmt prepare-data mine-en-de "
            "--train corpus/europarl (the languages may also be given with `source_lang` and `target_lang`).",
        ),
    ],
)
def test_a_mistake_is_an_error_of_ours(here, call, message):
    with pytest.raises(nmt.NmtError, match=f"^{re.escape(message)}"):
        call()


@pytest.mark.parametrize(
    ("typed", "in_python"),
    [
        ("Add --fresh, or --no-align.", "Add `fresh=True`, or `align=False`."),
        ("Use --device cpu (--device).", "Use `device` cpu (`device`)."),
        ("or --set a.b=6 --set c.d=0.3.", 'or `set=["a.b=6", "c.d=0.3"]`.'),
        ("--set a.b=6: unknown", '`set=["a.b=6"]`: unknown'),
        ("Run `nmt train --fresh`, or `--fresh` there.", "Run `nmt train --fresh`, or `--fresh` there."),
        ("As nmt train --fresh a/b. Add --other.", "As nmt train --fresh a/b. Add --other."),
    ],
)
def test_hints_call_arguments_as_python_does(typed, in_python):
    known = {"fresh": "bool", "align": "Annotated[bool | None, Option()]", "device": "str", "set": "Assignments"}
    with pytest.raises(nmt.NmtError) as error, naming_arguments(known):
        raise nmt.NmtError(typed)
    assert (str(error.value), error.value.typed) == (in_python, typed)


def test_the_command_names_its_options(here):
    words = ["translate", "--input-format", "paragraphs", "--prefix", "ref.de", "hypothesis"]
    result = CliRunner().invoke(app, words)
    assert result.stderr == "error: --prefix only goes with --input-format lines.\n"


def test_what_the_functions_return_and_call_is_public():
    for name, function in FUNCTIONS.items():
        kinds = " ".join(str(function.__annotations__.get(each)) for each in ("return", "listener", "report"))
        own = set(re.findall(r"\b[A-Z]\w+", kinds)) - {"None"}
        assert own and own <= set(nmt.__all__), name


def test_every_argument_is_documented():
    for name, function in FUNCTIONS.items():
        assert [each for each in inspect.signature(function).parameters if f"{each}: " not in function.__doc__] == [
            each for each in ("beam", "length_penalty") if name == "serve"
        ]
        for field in option_parameters(function):
            assert f" {field.name}: {field.python_text}" in " ".join(function.__doc__.split())
