"""Validation errors of typed input (settings, options, a recipe, a manifest) as sentences, one per key."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from types import UnionType
from typing import Any, TypeGuard, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from nmt.option_fields import plain_number
from nmt.text.addresses import without_secrets

_WORDS = {
    "int": "expected a whole number",
    "float": "expected a number",
    "finite": "expected a finite number",
    "bool": "expected true or false",
    "string": "expected text",
    "list": "expected a list, as in [one, another]",
    "tuple": "expected a list, as in [one, another]",
    "dict": "expected a mapping, as in {key: value}",
}
"""Messages by the first word of pydantic's name for a type error."""
_BOUNDS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length}",
    "too_long": "must have at most {max_length}",
    "string_pattern_mismatch": "must match the pattern {pattern}",
    "literal_error": "expected {expected}",
    "union_tag_invalid": "expected {discriminator} to be one of {expected_tags}, got {tag!r}",
    "union_tag_not_found": "the key {discriminator} is missing",
    "json_invalid": "is not JSON ({error})",
    "missing": "the key is missing",
}
_LONGEST_VALUE = 80


def mistakes(
    problems: Sequence[Any], root: type[BaseModel], origin: Callable[[str], str], *, noun: str = "setting"
) -> Iterator[str]:
    """A sentence for each key that has problems. A value of several types has one problem per type.

    Args:
        problems: as pydantic reports them.
        root: the model that the input was read as.
        origin: returns the source of a key's value: a file, a preset, an option. If values contradict each other, the
            key is their section's, or ``""`` for the root.
        noun: the word for a key.
    """
    for key, of_key in _by_key(problems, root):
        if of_key[0]["type"] == "extra_forbidden":
            yield f"{origin(key)}: {_unknown(root, key, of_key[0]['input'], noun)}"
        elif of_key[0]["type"] == "missing":
            yield f"{origin(key)}: the key {key!r} is missing."
        else:
            source = origin(key)
            # The source --set KEY=VALUE contains the key, and --max-updates VALUE its last word.
            own_option = source.startswith(f"--{key.rpartition('.')[2].replace('_', '-')} ")
            named = "" if not key or own_option or f" {key}=" in f" {source}" else f"{key}: "
            yield f"{source}: {named}{_message(root, key, of_key, as_yaml)}."


def option_mistakes(
    problems: Sequence[Any], root: type[BaseModel], called: Callable[[str], str] = str
) -> Iterator[str]:
    """As :func:`mistakes`, for command-line options or keywords of the Python API.

    Args:
        called: returns the user's name of an option, given its key: ``--beam`` or ``beam``.
    """
    for key, of_key in _by_key(problems, root):
        if of_key[0]["type"] == "extra_forbidden":
            yield _unknown(root, key, of_key[0]["input"], "option")
        else:
            yield f"{called(key)}: {_message(root, key, of_key, repr)}."


def _by_key(problems: Sequence[Any], root: type[BaseModel]) -> Iterator[tuple[str, list[Any]]]:
    by_key: dict[str, list[Any]] = {}
    for problem in problems:
        path = _key_path(root, [str(part) for part in problem["loc"]])
        by_key.setdefault(".".join(path), []).append(problem)
    yield from by_key.items()


def first_mistake(error: ValidationError) -> str:
    """The first problem in a file that is not written by hand, without a full stop."""
    problem = error.errors(include_url=False)[0]
    key = ".".join(map(str, problem["loc"]))
    return (f"{key}: " if key else "") + _message(None, key, [problem], repr)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'tiny'?)``, for the nearest word, or one that begins like this; empty if there is neither."""
    words = list(known)
    nearest = difflib.get_close_matches(word, words, n=1) or [each for each in words if word and each.startswith(word)]
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


def as_yaml(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, tuple):
        value = list(value)
    return (
        yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=math.inf)
        .removesuffix("\n")
        .removesuffix("\n...")
    )


def _message(root: type[BaseModel] | None, key: str, problems: Sequence[Any], shown: Callable[[Any], str]) -> str:
    first, *others = dict.fromkeys(_words(root, key, problem) for problem in problems)
    expected = " or ".join([first, *(other.removeprefix("expected ") for other in others)])
    if problems[0]["type"] in ("union_tag_not_found", "json_invalid"):
        return expected
    return expected + _given(problems[0], shown)


def _words(root: type[BaseModel] | None, key: str, problem: Any) -> str:
    """A phrase for what was expected; pydantic's own for rare kinds of problems."""
    kind = problem["type"]
    if root is not None and kind in ("model_type", "model_attributes_type"):
        return f"is a section: set its keys, as in {key}.{next(iter(_section(root, key.split('.')).model_fields))}"
    if kind in _BOUNDS:
        context = {name: _bound(value) for name, value in problem.get("ctx", {}).items()}
        return _BOUNDS[kind].format(**context)
    if kind == "is_instance_of":
        expected = problem["ctx"]["class"]
        return f"expected nmt.{expected}(…)"
    if (word := kind.split("_")[0]) in _WORDS:
        return _WORDS[word]
    message: str = problem["msg"].removeprefix("Value error, ")
    return message.rstrip(".")


def _bound(value: Any) -> Any:
    return plain_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _given(problem: Any, shown: Callable[[Any], str]) -> str:
    value = problem["input"]
    if isinstance(value, dict) or problem["type"] == "too_short":
        return ""
    text = without_secrets(repr(value) if isinstance(value, str) else shown(value))
    if len(text) > _LONGEST_VALUE:
        text = text[:_LONGEST_VALUE] + " …"
    # YAML reads an unquoted `no`, which is also a language code, as false.
    hint = "; put it in quotes to make it text" if isinstance(value, bool) and problem["type"] == "string_type" else ""
    return f", got {text}{hint}"


def _unknown(root: type[BaseModel], key: str, value: Any, noun: str) -> str:
    path, holds_keys = key.split("."), isinstance(value, dict)
    *sections, last = path
    while isinstance(value, dict) and len(value) == 1:
        [(inner, value)] = value.items()
        path.append(str(inner))
    if meant := settings_called(root, path[-1]) or settings_called(root, "_".join(path)):
        return f"unknown {noun} {'.'.join(path)!r}; did you mean {_listed(meant)}?"
    fields = _section(root, sections).model_fields
    known = [name for name, field in fields.items() if holds_keys or not _is_section(field.annotation)]
    prefix = "".join(f"{part}." for part in sections) if noun == "setting" else ""
    elsewhere = {name.rpartition(".")[2] for name in _free_names(root)}
    if near := difflib.get_close_matches(last, known, n=1, cutoff=0.5):
        return f"unknown {noun} {key!r}; did you mean {prefix + near[0]!r}?"
    if near := difflib.get_close_matches(path[-1], elsewhere, n=1, cutoff=0.75):
        return f"unknown {noun} {key!r}; did you mean {_listed(settings_called(root, near[0]))}?"
    if noun == "setting" and not sections:
        return f"unknown {noun} {key!r}; `nmt train --show-settings` prints all."
    return f"unknown {noun} {key!r}; known here are {', '.join(prefix + field for field in fields)}."


def _listed(settings: Mapping[str, str]) -> str:
    return " or ".join(f"{name!r}{text and f' ({text})'}" for name, text in settings.items())


def settings_called(root: type[BaseModel], called: str) -> dict[str, str]:
    """The settings with a name in any section, each with an empty text; else those that other toolkits call so, each
    with what its description says first."""
    called, names = called.replace("-", "_"), _free_names(root)
    if exact := [name for name in names if name.rpartition(".")[2] == called]:
        return dict.fromkeys(exact, "")
    found = [name for name in names if called in _other_names().get(name, "").split()]
    return {name: _description(root, name) for name in found}


def _free_names(root: type[BaseModel]) -> list[str]:
    """The names of all settings but those that follow from the data sets."""
    return [name for name in setting_names(root) if not name.startswith("data.")]


@cache
def _other_names() -> dict[str, str]:
    text = (resources.files("nmt.config") / "other_names.yaml").read_text("utf-8")
    names: dict[str, str] = yaml.safe_load(text)
    return names


def _description(root: type[BaseModel], name: str) -> str:
    *sections, last = name.split(".")
    return re.split(r"[;.](?: |$)", _section(root, sections).model_fields[last].description or "")[0]


def _key_path(root: type[BaseModel], path: list[str]) -> list[str]:
    """The part of a location that names a key. For a value of several types, pydantic appends the type it tried."""
    for depth, step in enumerate(path):
        field = _section(root, path[:depth]).model_fields.get(step)
        if field is not None and _has_several_types(field.annotation):
            return path[: depth + 1]
    return path


def _has_several_types(annotation: Any) -> bool:
    types = [kind for kind in get_args(annotation) if kind is not type(None)]
    return get_origin(annotation) in (Union, UnionType) and len(types) > 1


def _section(root: type[BaseModel], path: Sequence[str]) -> type[BaseModel]:
    """The section at a path (through lists, mappings and tagged unions), or the last section on the way."""
    section, options = root, [root]
    for step in path:
        if step in section.model_fields:
            options = list(_sections(section.model_fields[step].annotation))
            section = options[0] if len(options) == 1 else section
        else:
            tagged = (option for option in options if "kind" in option.model_fields)
            kinds = {get_args(option.model_fields["kind"].annotation)[0]: option for option in tagged}
            section = kinds.get(step, section)
    return section


def _sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections in a type."""
    if _is_section(annotation):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


def setting_names(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The full names of all keys that are not sections."""
    for name, field in section.model_fields.items():
        inner = field.annotation
        if _is_section(inner):
            yield from setting_names(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
