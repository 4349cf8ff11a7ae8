"""Every option of a command reaches the function of the Python API that the command calls, under its own name."""

from __future__ import annotations

import importlib
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from unittest.mock import Mock

import pytest
import typer.main
from typer.testing import CliRunner

import nmt
from nmt.cli.app import app
from nmt.errors import DataError
from nmt.option_fields import option_fields
from nmt.search.settings import Sampling

FUNCTIONS = {
    "prepare-data": "data.prepare_data", "build-vocab": "data.build_vocab", "train": "training.train",
    "average-checkpoints": "training.average_checkpoints", "translate": "files.translate_file",
    "score-target": "files.score_target", "serve": "serving.serve", "score": "scoring.score",
    "compare": "comparing.compare", "synthesize": "synthesizing.synthesize",
}  # fmt: skip
SHOWING = {"list_", "show_dropped", "as_json", "form", "quiet", "help"}
"""What the commands do themselves: how they print."""
OF_SAMPLING = {field.name for field in option_fields(Sampling)}
ALLOWED = {"nbest": 2}
COMMANDS = typer.main.get_command(app).commands


def value_of(param: Any) -> Any:
    """A value that is not the default; of a list, two. Options of one type get different values."""
    number = sum(map(ord, param.name)) % 90 + 9
    kind = param.type_descriptor.annotation
    if is_list := get_origin(kind) is list:
        [kind] = get_args(kind)
    if kind is bool:
        return not param.default
    if get_origin(kind) is Literal or issubclass(kind, StrEnum):
        choices = get_args(kind) or tuple(kind)
        value: Any = str([choice for choice in choices if choice not in ("auto", param.default)][-1])
    else:
        values = {int: number, float: 0.98 + number / 10_000, Path: Path(param.name), str: param.name}
        value = ALLOWED.get(param.name, values[kind])
    return [value, value] if is_list else value


def typed(param: Any, value: Any) -> list[str]:
    if isinstance(value, bool):
        words = param.opts if value else param.secondary_opts
        return [max(words, key=len)]
    name = [] if param.param_type_name == "argument" else [max(param.opts, key=len)]
    return [word for each in (value if isinstance(value, list) else [value]) for word in (*name, str(each))]


@pytest.mark.parametrize("command", FUNCTIONS)
def test_every_option_reaches_the_function(command, monkeypatch):
    module, _, name = FUNCTIONS[command].partition(".")
    assert name in nmt.__all__
    # First: the command, which may be imported only now, takes its options from the function.
    params = [each for each in COMMANDS[command].params if each.name not in SHOWING | {"text"}]
    function = Mock(side_effect=DataError("called"))
    monkeypatch.setattr(importlib.import_module(f"nmt.api.{module}"), name, function)
    values = {each.name: value_of(each) for each in params}
    words = [word for each in params for word in typed(each, values[each.name])]
    words += ["--json"] if command == "score" else []  # which sentence scores need
    result = CliRunner().invoke(app, [command, *words])
    assert "error: called" in result.stderr, (result.stderr, result.exception)
    if command in ("translate", "synthesize"):
        values["sampling"] = Sampling(**{name: values.pop(name) for name in OF_SAMPLING})
    got = function.call_args.kwargs
    assert {name: got.get(name, "missing") for name in values} == values
