"""A path that is longer than the system allows is a mistake, wherever a command takes one."""

import pytest
import typer.main
from typer.testing import CliRunner

from nmt.cli.app import app

LONG = "x" * 300
GROUP = typer.main.get_command(app)
# What each command needs besides, so that it comes to its paths.
NEEDED = {
    "compare": {"a": "a", "b": "b", "reference": "r"},
    "export": {"model": "m", "to": "huggingface"},
    "score": {"hypothesis": "h", "reference": "r"},
    "prepare-data": {"dataset": "toy-en-de"},
    "import": {"path": "m"},
    "inspect": {"path": "m"},
}


def words(command: str, given: dict[str, str]) -> list[str]:
    made = [command]
    for param in GROUP.commands[command].params:
        if param.name in given:
            made += [] if param.param_type_name == "argument" else [max(param.opts, key=len)]
            made.append(given[param.name])
    return made


def places() -> list[tuple[str, str]]:
    return [
        (name, param.name)
        for name, command in GROUP.commands.items()
        if name != "doctor"
        for param in command.params
        # The toy pair needs no cache.
        if param.name != "cache"
        and ("Path" in str(param.type_descriptor.annotation) or param.name in ("data", "train", "valid", "test"))
    ]


@pytest.mark.parametrize(("command", "name"), places())
def test_a_path_of_300_characters(command, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, words(command, NEEDED.get(command, {}) | {name: LONG}))
    assert result.exit_code == 2, result.exception
    assert "error: " in result.stderr


def test_an_unexpected_argument_of_300_characters():
    result = CliRunner().invoke(app, ["train", LONG])
    assert (result.exit_code, result.stderr[:28]) == (2, "error: unexpected argument: ")
