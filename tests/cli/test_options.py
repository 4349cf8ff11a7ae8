"""What the options of all commands have in common."""

import inspect
import re
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import nmt
from nmt.cli import console
from nmt.cli.app import app
from tests.commands import run_command


def commands(group, path="") -> dict:
    found = {}
    for name, command in group.commands.items():
        inner = hasattr(command, "commands")
        found |= commands(command, f"{path}{name} ") if inner else {f"{path}{name}": command}
    return found


COMMANDS = commands(typer.main.get_command(app))


def help_of(*command: str) -> str:
    return CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("words", [["--help"], ["translate", "--help"]], ids=" ".join)
def test_help_that_cannot_be_written_names_standard_output(words):
    result = run_command(words, redirected=Path("/dev/full"))
    assert (result.returncode, result.stderr) == (2, b"error: standard output: No space left on device.\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_and_can_be_quiet(command):
    text = help_of(*command.split())
    assert "Example: nmt" in text
    assert re.search(r"-q, --quiet +Print warnings and errors only\.", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_options_are_called_the_same_in_every_command(name):
    letters = {"--out": "-o", "--output": "-o", "--model": "-m", "--input": "-i", "--beam": "-b", "--quiet": "-q"}
    for param in COMMANDS[name].params:
        for word in {"--out", "--output", "--model", "--input", "--quiet"} & set(param.opts):
            assert letters[word] in param.opts, word
        for word, letter in letters.items():
            assert letter not in param.opts or {word, "--output", "--out"} & set(param.opts), letter
        if param.param_type_name == "argument":
            assert re.fullmatch("[A-Z]+", param.metavar), param.name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_shows_no_types_of_python(name):
    assert re.findall(r"<(?:list|str|path|int|float|Path)\S*|\{\S*|\[[a-z]+\]\.\.\.", help_of(*name.split())) == []


@pytest.mark.parametrize(
    ("typed", "parameter", "value"),
    [
        ("translate --out t.de", "output", Path("t.de")),
        ("translate --output=t.de", "output", Path("t.de")),
        ("train --output runs/x", "out", Path("runs/x")),
        ("train --output=runs/x", "out", Path("runs/x")),
        ("export --model runs/x --to marian", "model", Path("runs/x")),
        ("export --to marian -m runs/x", "model", Path("runs/x")),
        ("export --model=runs/x --to marian", "model", Path("runs/x")),
        ("average-checkpoints -m runs/x", "run", Path("runs/x")),
        ("report -m runs/x runs/y", "runs", [Path("runs/x"), Path("runs/y")]),
        ("report -mruns/x -m=runs/y", "runs", [Path("runs/x"), Path("runs/y")]),
        ("translate -m=runs/x -mruns/y", "model", [Path("runs/x"), Path("runs/y")]),
        ("attention --target -q --target=", "target", ["-q", ""]),
        ("translate --format text", "format", "text"),  # as the argument is called
        ("score h --reference hypothesis", "reference", [Path("hypothesis")]),
        ("prepare-data -o data/x toy-en-de", "out", Path("data/x")),
        ("score --metric BLEU --metric Ter --reference r h", "metric", ["bleu", "ter"]),
        ("translate --Precision FP32", "precision", "fp32"),
        ("prepare-data x --train a.en a.fr", "train", ["a.en", "a.fr"]),
        ("prepare-data x --train=a b -q --valid c - --train d", "train", ["a", "b", "d"]),
        ("prepare-data x --train a --valid c - --test d", "valid", ["c", "-"]),
        ("prepare-data --train a x-en-fr", "dataset", "x-en-fr"),
        ("prepare-data -o d x-en-fr --train a b", "train", ["a", "b"]),
        ("synthesize --jobs 1 x-en-fr --mono m -m r --valid a b --test c", "valid", ["a", "b"]),
    ],
)
def test_names_that_the_help_leaves_out_are_understood(typed, parameter, value):
    name, *words = typed.split()
    root = typer.main.get_command(app)
    context = root.make_context("nmt", [name], resilient_parsing=True)
    assert COMMANDS[name].make_context(name, words, parent=context).params[parameter] == value


def test_the_help_of_translate_stands_in_groups_of_80_columns():
    text = help_of("translate")
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert headings == ["Input and output", "Search", "Sampling", "Output format", "Hardware", "Other"]
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 95
    for option in ("-i, --input", "-o, --output", "-m, --model", "-b, --beam"):
        assert option in text


def test_the_first_six_commands_make_a_translator():
    text = help_of()
    assert "The first six, in this order, make a translator." in text
    listed = re.findall(r"^  ([a-z-]+) ", text.partition("Commands:")[2], re.MULTILINE)
    assert listed[:6] == ["prepare-data", "build-vocab", "train", "average-checkpoints", "translate", "score"]


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_has_a_letter(word):
    assert CliRunner().invoke(app, [word]).stdout == f"nmt {nmt.__version__}\n"


def test_quiet_leaves_warnings(monkeypatch, capsys):
    monkeypatch.setattr(console, "_quiet", False)
    console.stderr.cache_clear()
    console.notice("seen")
    console.be_quiet()
    console.notice("not seen")
    console.warn("heard")
    assert not console.is_terminal()
    console.stderr.cache_clear()
    assert capsys.readouterr().err.splitlines() == ["seen", "warning: heard"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("translate --beam x", "--beam: expected a whole number, got 'x'."),
        ("translate -b 1.5", "--beam: expected a whole number, got '1.5'."),
        ("build-vocab --size 32k", "--size: expected a whole number, got '32k'. Write 32000."),
        (
            "prepare-data --train a.en a.fr x-en-fr",
            "unexpected argument: x-en-fr. The name of the data set comes first, then --train with its texts.",
        ),
        ("train --max-minutes soon", "--max-minutes: expected a number, got 'soon'."),
        ("translate --batches 0", "--batches: must be at least 1, got '0'."),
        (
            "train --set model.dropout 0.1",
            "unexpected argument: 0.1. --set takes KEY=VALUE, as in --set model.dropout=0.1.",
        ),
        ("train --prest tiny", "no such option: --prest. Did you mean --preset?"),
        ("train --Hocus 1", "no such option: --Hocus."),
        ("translate --hocus 1 --HOCUS", "no such option: --hocus."),
        ("export runs/r", "missing option: --to FORMAT (marian, ctranslate2, huggingface or argos)."),
        ("export --to marian", "missing argument: MODEL (Run or bundle)."),
        ("serve --port", "option --port needs a value."),
        ("average-checkpoints -m", "option -m needs a value."),
        ("report runs/x --model=", "option --model needs a value."),
        ("serve -m --quiet", "option -m needs a value."),
        ("translate -i --output=o -m runs/x", "option -i needs a value."),
        ("score --reference --json h", "option --reference needs a value."),
        ("translate --device tpu", "--device: 'tpu' is not one of 'auto', 'cpu', 'cuda', 'mps'."),
    ],
)
def test_an_error_about_a_value_shows_the_value(words, message):
    command = words.split()
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert result.stderr == f"error: {message} See nmt {command[0]} --help.\n"


def test_a_sentence_in_place_of_a_file_is_answered_with_how_to_translate_it():
    result = CliRunner().invoke(app, ["translate", "The man sleeps."])
    assert result.exit_code == 2
    assert 'To translate a sentence: echo "The man sleeps." | nmt translate' in result.stderr


def test_scoring_has_the_batches_of_scoring_on_every_device():
    [param] = [param for param in COMMANDS["score-target"].params if param.name == "batch_tokens"]
    default = inspect.signature(nmt.Model.score).parameters["batch_tokens"].default
    assert param.help == f"Pieces of the longer side per batch, padding included.  [{default}]"


def test_a_second_metric_is_no_file():
    result = CliRunner().invoke(app, ["score", "--reference", "r", "--metric", "bleu", "chrf"])
    assert "chrf: there is no such file" in result.stderr and "--metric bleu --metric chrf" in result.stderr
