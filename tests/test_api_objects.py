"""What the Python API's objects say of themselves, and when a mistake is noticed."""

import re

import pytest

import nmt
from nmt.config import Config
from nmt.machine.device import choose_hardware
from nmt.option_fields import option_fields
from nmt.translation.ensemble import Ensemble
from nmt.translation.options import TranslateOptions


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"temperature": -1}, "temperature: must be at least 0.000001, got -1"),
        ({"temperature": 0}, "temperature: must be at least 0.000001, got 0"),
        ({"top_p": 0.0}, "top_p: must be greater than 0, got 0.0"),
        ({"temperature": float("nan")}, "temperature: expected a finite number, got nan"),
        ({"temperature": "1"}, "temperature: expected a number, got '1'"),
        ({"top_k": 0}, "top_k: must be at least 1, got 0"),
        ({"top_k": 1.5}, "top_k: expected a whole number, got 1.5"),
        ({"top_p": 1.5}, "top_p: must be at most 1, got 1.5"),
        ({"seed": -1}, "seed: must be at least 0, got -1"),
        ({"seed": None}, "seed: expected a whole number, got None"),
    ],
)
def test_a_sampling_that_nothing_can_be_drawn_with_is_refused_when_it_is_made(values, words):
    with pytest.raises(nmt.NmtError) as error:
        nmt.Sampling(**values)
    assert words in str(error.value)
    assert nmt.Sampling(temperature=0.5, top_k=3, top_p=1.0, seed=0).top_k == 3


def test_objects_show_what_they_are_on_one_short_line():
    text = nmt.TranslatedText("Der Mann schläft.", ("▁Der",) * 200, -1.0, -0.5)
    translation = nmt.Translation("The man sleeps.", (text,))
    assert repr(text) == "TranslatedText('Der Mann schläft.', score=-0.500)"
    assert repr(translation) == "Translation('The man sleeps.' -> 'Der Mann schläft.')"
    finding = nmt.Finding(("looping",), False)
    looping = nmt.Translation("a\tb", (text, text), parts=2, guard=finding)
    assert repr(looping) == f"Translation('a\\tb' -> 'Der Mann schläft.', 2 candidates, 2 parts, {finding!r})"
    scored = nmt.ScoredTarget("b", ("b",), -2.0, -1.5, source="a")
    assert repr(scored) == "ScoredTarget('a' -> 'b', score=-1.500)"


def test_a_model_shows_where_it_comes_from_and_computes():
    config = Config.model_validate({"data": {"source_lang": "en", "target_lang": "de"}})
    model = nmt.Model([Ensemble((), None, config, choose_hardware("cpu", "fp32", 1))], names=["runs/a", "runs/b"])
    assert repr(model) == "Model('runs/a' + 'runs/b', en-de, cpu, 1 thread, fp32)"


def test_help_explains_every_option():
    options = {field.name for field in option_fields(TranslateOptions)}
    assert options >= {"mbr", "beam", "sampling"}
    for name in {"lines", "prefixes"} | options:
        assert re.search(rf"^ +{name}: \S", nmt.Model.translate.__doc__, re.MULTILINE), name


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(nmt.NmtError, match="nowhere: there is no such run or bundle"):
        nmt.load("nowhere")


def test_a_warning_names_arguments_and_the_line_of_the_caller(tmp_path):
    for name in ("hypothesis", "reference"):
        (tmp_path / name).write_text("猫坐在垫子上。\n", "utf-8")
    with pytest.warns(nmt.NmtWarning, match="BLEU means little. Use `target_lang` zh") as found:
        nmt.score(tmp_path / "hypothesis", reference=tmp_path / "reference")
    assert found[0].filename == __file__


def test_what_is_no_name_of_the_api_is_answered_with_the_one_to_use():
    with pytest.raises(AttributeError, match=r"nmt\.load\(RUN\)\.translate"):
        nmt.translate  # noqa: B018
    with pytest.raises(nmt.NmtError, match=r"load the model with nmt\.load\('runs/x'\)"):
        nmt.Model("runs/x")


@pytest.mark.parametrize(("name", "unknown"), [("m-qq-zz", "qq and zz: "), ("m-de-xy", "xy: "), ("m-de-pt_BR", "")])
def test_codes_that_are_no_language_are_one_warning(tmp_path, recwarn, name, unknown):
    for side in ("source", "target"):
        (tmp_path / side).write_text("a\n", "utf-8")
    nmt.prepare_data(name, train=[tmp_path / "source", tmp_path / "target"], show_recipe=True)
    found = [str(each.message).partition("no language")[0] for each in recwarn]
    assert found == ([unknown] if unknown else [])
