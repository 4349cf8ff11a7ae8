"""An option is defined once: its field is on the command line, in the Python API, in the record and in resuming."""

import re
from typing import Annotated, get_type_hints

import pytest
import typer
import typer.main
from pydantic import Field, InstanceOf
from typer.testing import CliRunner

import nmt
from nmt.cli.app import app
from nmt.cli.options import GroupedCommand, command
from nmt.config.sections import DecodingConfig
from nmt.errors import ConfigError
from nmt.option_fields import GROUPS, Option, option_fields
from nmt.search.settings import Sampling
from nmt.translation import options as options_module
from nmt.translation.options import Options, TranslateOptions, recorded, recorded_words

FIELDS = option_fields(TranslateOptions)
OF_SAMPLING = option_fields(Sampling)


def spaceless(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def translate():
    return typer.main.get_command(app).commands["translate"]


@pytest.fixture(scope="module")
def shown():
    return CliRunner().invoke(app, ["translate", "--help"], env={"COLUMNS": "80"}).output


@pytest.mark.parametrize("field", [*FIELDS, *OF_SAMPLING], ids=lambda field: field.name)
def test_every_option_is_on_the_command_line(field, translate, shown):
    [param] = [param for param in translate.params if field.flag in param.opts]
    assert param.rich_help_panel == field.option.group in GROUPS
    assert param.help == field.help_text
    if field.option.letter:
        assert f"-{field.option.letter}" in param.opts
    assert f"{field.flag} " in shown.replace("[no-]", "")
    assert spaceless(field.help_text) in spaceless(shown)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_option_is_a_keyword_in_python_with_its_documentation(field):
    assert f" {field.name}: {field.python_text}" in spaceless(nmt.Model.translate.__doc__)


def test_the_keywords_have_the_types_of_the_fields():
    assert get_type_hints(Options) == {field.name: field.value_type | None for field in FIELDS}


def test_the_configuration_and_the_options_share_defaults_and_bounds():
    for name, field in DecodingConfig.model_fields.items():
        assert TranslateOptions.model_fields[name].default == field.default
        assert TranslateOptions.model_fields[name].metadata == field.metadata


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_option_is_recorded_and_compared(field):
    record = recorded(TranslateOptions())
    assert (field.name in record) == field.option.is_recorded
    if field.option.is_recorded:
        assert recorded_words(record | {field.name: "other"}) != recorded_words(record)


def test_records_of_version_0_1_stay_comparable():
    of_old_version = {
        "beam": 4, "length_penalty": 0.6, "max_extra_length": 50, "max_length": None, "min_length": 0, "nbest": 1,
        "length_normalization": "paper", "no_repeat_ngram": 0, "max_source_length": None, "split_sentences": "auto",
        "guard": True, "alignment": False, "copy_unknown": "auto", "mbr": False,
        "sampling": {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1},
    }  # fmt: skip
    assert recorded(TranslateOptions(sampling=Sampling())).items() >= of_old_version.items()
    of_scoring = {"length_penalty": 0.6, "length_normalization": "paper", "alignment": False}
    assert recorded(TranslateOptions(), scoring=True).items() >= of_scoring.items()


class MoreSampling(Sampling):
    drift: Annotated[float, Option(group="Sampling")] = Field(0.0, ge=0, description="Lets samples drift.")


class MoreSettings(TranslateOptions):
    shine: Annotated[int, Option(letter="s")] = Field(0, ge=0, le=9, description="Polish outputs of {beam} N times.")
    sampling: Annotated[InstanceOf[MoreSampling] | None, Option(word="sample")] = Field(None, description="Draw.")


def typed(*words: str):
    """What a command with the options of ``MoreSettings`` gets, and what it prints."""
    got = []
    program = typer.Typer(rich_markup_mode=None)

    @program.command(cls=GroupedCommand)
    @command(lambda **options: None, MoreSettings)
    def polish(given: dict) -> None:
        got.append(given)

    result = CliRunner().invoke(program, words, env={"COLUMNS": "100"})
    return result, got


def test_a_new_field_is_an_option_everywhere(monkeypatch):
    shown = spaceless(typed("--help")[0].output)
    assert "-s, --shine N Polish outputs of --beam N times. [0]" in shown
    assert "--drift X Lets samples drift. [0]" in shown
    assert typed()[1] == [{}]
    assert typed("-s", "3", "--no-repeat-ngram", "0")[1] == [{"shine": 3, "no_repeat_ngram": 0}]
    assert typed("--sample", "--drift", "2")[1] == [{"sampling": MoreSampling(drift=2.0)}]
    assert str(typed("--shine", "10")[0].exception) == "--shine: must be at most 9, got 10."
    assert str(typed("--drift", "2")[0].exception) == "--drift only goes with --sample."

    assert MoreSettings(shine=4).shine == 4
    with pytest.raises(ConfigError, match="unknown option 'shinee'; did you mean 'shine'"):
        MoreSettings(shinee=4)

    before = recorded(TranslateOptions())
    assert "shine" not in before
    monkeypatch.setattr(options_module, "TranslateOptions", MoreSettings)
    monkeypatch.setattr(options_module, "Sampling", MoreSampling)
    assert recorded(MoreSettings(shine=2))["shine"] == 2
    assert recorded_words(recorded(MoreSettings(shine=2)))[-1:] == ["--shine=2"]
    sampled = recorded_words(recorded(MoreSettings(sampling=MoreSampling(drift=1.0))))
    assert {"--sample", "--drift=1.0"} <= set(sampled)


def test_the_defaults_are_allowed_and_every_setting_but_one_is_an_option():
    for settings in (TranslateOptions, Sampling):
        defaults = {field.name: field.default for field in option_fields(settings)}
        assert settings(**defaults) == settings()
        assert settings.model_fields.keys() - defaults.keys() <= {"max_length"}


def test_no_text_is_a_number_and_no_number_a_switch():
    for values, message in [
        ({"beam": "4"}, "beam: expected a whole number, got '4'."),
        ({"beam": True}, "beam: expected a whole number, got True."),
        ({"length_penalty": object}, "length_penalty: expected a number, got <class 'object'>."),
        ({"sampling": {"top_k": 3}}, "sampling: expected nmt.Sampling(…)."),
    ]:
        with pytest.raises(ConfigError) as error:
            TranslateOptions(**values)
        assert str(error.value) == message
    with pytest.raises(ConfigError, match="guard: expected true or false, got 1"):
        TranslateOptions(guard=1)
