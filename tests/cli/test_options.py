"""What the options of all commands have in common."""

import re

import pytest
from typer.testing import CliRunner

from nmt.cli import console
from nmt.cli.app import app

COMMANDS = [
    *("prepare-data", "build-vocab", "train", "average-checkpoints", "translate", "score"),
    *("compare", "inspect", "import", "export", "report", "attention", "doctor"),
]


def help_of(*command: str) -> str:
    return CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80"}).output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_quiet(command):
    assert re.search(r"-q, --quiet +Print warnings and errors only\.", help_of(command))


def test_the_help_of_translate_stands_in_groups_of_80_columns():
    text = help_of("translate")
    headings = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert headings == ["Input and output", "Search", "Sampling", "Output format", "Hardware", "Other"]
    assert max(map(len, text.splitlines())) <= 80
    for option in ("-i, --input", "-o, --output", "-m, --model", "-b, --beam"):
        assert option in text
    assert "--resume" not in text


@pytest.mark.parametrize("command", ["translate", "compare"])
def test_help_texts_have_ten_words_at_most(command):
    import typer.main

    for param in typer.main.get_command(app).commands[command].params:
        words = re.sub(r"\[.*?\]", "", param.help or "").split()
        assert len(words) <= 10, param.name


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
        ("train --max-minutes soon", "--max-minutes: expected a number, got 'soon'."),
        ("translate --workers 0", "--workers: must be at least 1, got '0'."),
        ("translate --device tpu", "--device: 'tpu' is not one of 'auto', 'cpu', 'cuda', 'mps'."),
    ],
)
def test_an_error_about_a_value_shows_the_value(words, message):
    command = words.split()
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2
    assert result.stderr == f"error: {message} See nmt {command[0]} --help.\n"
