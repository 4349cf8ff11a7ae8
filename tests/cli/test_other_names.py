"""Options of other toolkits are answered with ours, which exist."""

import re

import pytest
import typer.main
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.cli.options import _formats
from nmt.cli.other_names import other_names
from nmt.config import Config, setting_names
from nmt.config.mistakes import _other_names
from nmt.convert.formats import WRITABLE

COMMANDS = typer.main.get_command(app).commands
OPTIONS = {command: names for command, names in other_names().items() if command != "commands"}


@pytest.mark.parametrize(
    ("command", "advice"), [(name, text) for name, all_ in OPTIONS.items() for text in all_.values()]
)
def test_all_that_is_recommended_exists(command, advice):
    named = re.search(r"nmt ([a-z-]+)", advice)
    own = COMMANDS[named[1] if named else command]
    known = {word for param in own.params for word in param.opts}
    flags = re.findall(r"(--[a-z-]+)", advice.split(", then ")[0])
    assert set(flags) <= known
    assert flags or named or "leave it out" in advice
    for key in re.findall(r"--set ([a-z_.]+)=", advice):
        assert key in setting_names(Config)


def test_the_other_names_of_settings_are_those_of_settings_that_exist():
    settings = list(setting_names(Config))
    own = {name.rpartition(".")[2] for name in settings}
    assert _other_names().keys() <= set(settings)
    assert not own & {word for names in _other_names().values() for word in names.split()}


def test_all_commands_that_are_recommended_exist():
    for advice in other_names()["commands"].values():
        for part in advice.replace(", then ", " ").replace(" or ", " ").split("nmt ")[1:]:
            command, *flags = part.split()
            assert {word for word in flags if word.startswith("-")} <= {
                word for param in COMMANDS[command].params for word in param.opts
            }


@pytest.mark.parametrize(
    ("typed", "error"),
    [
        ("preprocess", "no such command: preprocess. Use nmt prepare-data, then nmt build-vocab. See nmt --help."),
        ("generate", "no such command: generate. Use nmt translate. See nmt --help."),
        ("tranlsate", "no such command: tranlsate. Did you mean translate? See nmt --help."),
        ("help hocus", "no such command: hocus. See nmt --help."),
        ("hocus", "no such command: hocus. See nmt --help."),
    ],
)
def test_an_unknown_command_is_answered_with_ours(typed, error):
    result = CliRunner().invoke(app, typed.split())
    assert (result.exit_code, result.stderr) == (2, f"error: {error}\n")


def test_back_translation_is_answered_with_its_commands():
    assert "Use nmt synthesize" in CliRunner().invoke(app, ["backtranslate"]).stderr


@pytest.mark.parametrize(
    ("words", "same"), [("help", "--help"), ("help train", "train --help"), ("version", "--version")]
)
def test_help_and_version_are_commands(words, same):
    asked, expected = (CliRunner().invoke(app, each.split()) for each in (words, same))
    assert (asked.exit_code, asked.output) == (0, expected.output)


def test_no_name_is_an_option_of_ours():
    for command, names in OPTIONS.items():
        known = {word.lstrip("-") for param in COMMANDS[command].params for word in param.opts if word[0] == "-"}
        words = [word for line in names for word in line.split()]
        assert not known & set(words)
        assert len(set(words)) == len(words)


@pytest.mark.parametrize(
    ("typed", "ours"),
    [
        ("train --lr 1e-3", "--lr. Use --set schedule.factor=VALUE: multiplies the learning rate"),
        ("train --lr=1e-3", "--lr. Use --set schedule.factor=VALUE: multiplies the learning rate"),
        ("train --batch-size 32", "Use --set batching.update_tokens=VALUE: target tokens per update, over all ranks."),
        ("train --warmup_updates 9", "Use --set schedule.warmup=VALUE"),
        ("train --dropout 9", "Use --set model.dropout=VALUE. See"),
        ("adapt m x --lr 9", "Use --set schedule.factor=VALUE"),
        ("train --num-layers 9", "Use --set model.encoder_layers=VALUE or --set model.decoder_layers=VALUE. See"),
        ("translate --batch_tokens 9", "Did you mean --batch-tokens?"),
        ("train --src a.en", "Use nmt prepare-data NAME --train SOURCE TARGET"),
        ("translate --src a.en", "Use --input FILE"),
        ("score --refs a.de b.de", "Use --reference FILE"),
        ("build-vocab --vocab-size 8000", "Use --size N"),
        ("train --columns en,de", "--columns. It is an option of nmt prepare-data. See nmt train --help."),
        ("prepare-data --preset tiny", "--preset. It is an option of nmt train. See"),
        ("train --beam=4", "--beam. It is an option of nmt translate, nmt synthesize and nmt serve."),
        ("translate --src-lang de", "--src-lang. Use --source-lang CODE"),
        ("translate --terms terms.tsv", "--terms. Use --glossary TSV"),
        ("score --reference r h --out s", "--out. Scores go to standard output"),
        ("inspect --page p", "--page. See nmt inspect"),
        ("serve --normalization nfkc", "--normalization. A model serves with its own: leave it out."),
        ("serve --source-lang en", "--source-lang. Each model serves its own languages: leave it out."),
        ("serve --models m", "--models. See nmt serve --help."),
        ("doctor --quick", "--quick. See nmt doctor --help."),
        ("prepare-data --dropout 0", "--dropout. See nmt prepare-data --help."),
        ("train --hocus 1", "no such option: --hocus. See nmt train --help."),
    ],
)
def test_an_option_of_another_toolkit_is_answered_with_ours(typed, ours):
    result = CliRunner().invoke(app, typed.split())
    assert (result.exit_code, ours in result.stderr) == (2, True), result.stderr


def test_the_help_lists_the_types_of_weights_of_all_exports():
    [param] = [param for param in COMMANDS["export"].params if param.name == "quantization"]
    listed = re.findall(r"[a-z]+[0-9][a-z0-9_]*", param.help.partition("  [")[0])
    assert set(listed) == {name for target in WRITABLE for name in target.quantizations}


def test_the_completed_formats_are_those_of_exports():
    assert sorted(_formats("")) == sorted(target.name for target in WRITABLE)
