"""What is wrong with settings, in words that name the setting and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from nmt.config.sections import Config
from nmt.config.writing import as_yaml, flatten


def mistakes(problems: Sequence[Any], name: str) -> Iterator[str]:
    """A line for each setting that has problems: a value of several types has one for each type.

    Args:
        problems: as pydantic tells them.
        name: where the settings come from.
    """
    by_key: dict[str, list[Any]] = {}
    for problem in problems:
        key = ".".join(_setting([str(part) for part in problem["loc"]]))
        by_key.setdefault(key, []).append(problem)
    for key, ones in by_key.items():
        if ones[0]["type"] == "extra_forbidden":
            yield _unknown(key, name)
            continue
        message = ", or ".join(_message(key, problem) for problem in ones)
        value = ones[0]["input"]
        given = "" if isinstance(value, dict) else f" (given: {as_yaml(value)})"
        yield f"{name}: {key + ': ' if key else ''}{message}{given}."


def _setting(path: list[str]) -> list[str]:
    """The part of a place that names a setting: behind one of several types stands which of them did not fit."""
    for depth in range(1, len(path)):
        field = _section(path[: depth - 1]).model_fields.get(path[depth - 1])
        if field is None or isinstance(field.annotation, type):
            continue
        types = [kind for kind in get_args(field.annotation) if kind is not type(None)]
        if get_origin(field.annotation) in (Union, UnionType) and len(types) > 1:
            return path[:depth]
    return path


def _section(path: list[str]) -> type[BaseModel]:
    """The section that a path leads to, or the last on its way."""
    section: type[BaseModel] = Config
    for part in path:
        annotation = section.model_fields[part].annotation if part in section.model_fields else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            break
        section = annotation
    return section


def _message(key: str, problem: Any) -> str:
    if problem["type"] == "model_type":
        return f"is a section: set its keys, as in {key}.{next(iter(_section(key.split('.')).model_fields))}"
    if problem["type"] == "tuple_type":
        return "expected a list, as in [one, another]"
    message: str = problem["msg"].removeprefix("Value error, ")
    return message


def _unknown(key: str, name: str) -> str:
    *sections, last = key.split(".")
    known = list(_section(sections).model_fields)
    prefix = "".join(f"{part}." for part in sections)
    nearest = difflib.get_close_matches(last, known, n=1, cutoff=0.5)
    if nearest:
        return f"{name}: unknown setting {key!r}; did you mean {prefix + nearest[0]!r}?"
    elsewhere = [full for full, _ in flatten(Config().model_dump()) if full.split(".")[-1] == last]
    if elsewhere:
        return f"{name}: unknown setting {key!r}; did you mean {elsewhere[0]!r}?"
    return f"{name}: unknown setting {key!r}; known here are {', '.join(prefix + field for field in known)}."
