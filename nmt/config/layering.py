"""Settings from several sources, where later ones override earlier ones; each error names the source of its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from nmt.config.mistakes import mistakes
from nmt.config.sections import Config, Section, subsection
from nmt.errors import ConfigError


@dataclass(frozen=True)
class Layer:
    """Settings from one source."""

    name: str
    """The name of the source in errors: ``preset tiny``, ``my.yaml``, ``--set model.heads=2``."""
    values: Mapping[str, Any]
    """The settings by section."""
    is_option: bool = False
    """Whether the source is a command-line option, not a preset or a file."""


def parse_layers(layers: Sequence[Layer]) -> Config:
    """Merge layers, where later ones override earlier ones, check the result, and fill in every default.

    Raises:
        ConfigError: a key is unknown or its value is invalid. Each such key is named with its source, and unknown ones
            with the nearest known key.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        values = overlay(values, layer.values)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        lines = mistakes(error.errors(), Config, lambda key: origin(layers, key))
        raise ConfigError("\n".join(lines)) from None


def overlay(
    below: Mapping[str, Any], above: Mapping[str, Any], section: type[Section] | None = Config
) -> dict[str, Any]:
    """Merge two trees of values; ``above`` overrides ``below`` key by key. An empty section changes nothing.

    Args:
        section: the section that the trees belong to; None if they belong to no known section.
    """
    result = dict(below)
    for key, value in above.items():
        under, inner = result.get(key), subsection(section, key)
        if isinstance(value, Mapping):
            result[key] = overlay(under if isinstance(under, Mapping) else {}, value, inner)
        elif value is not None or inner is None:
            result[key] = value
    return result


def origin(layers: Sequence[Layer], key: str) -> str:
    """The source of a setting. For a section, or all settings (``""``): every source of a value in it."""
    path = key.split(".") if key else []
    found = [(layer, _value(layer.values, path)) for layer in layers]
    having = [(layer, value) for layer, value in found if value is not _MISSING] or found[:1]
    last, value = having[-1]
    if not isinstance(value, Mapping):
        return last.name
    files = [layer.name for layer, _ in having if not layer.is_option]
    options = [layer.name for layer, _ in having if layer.is_option]
    return " with ".join(filter(None, (" over ".join(reversed(files)), ", ".join(options))))


def setting_in(layers: Sequence[Layer], key: str) -> Any:
    """The value of a setting in the last layer that has it; None if no layer does."""
    values = [_value(layer.values, key.split(".")) for layer in layers]
    return next((value for value in reversed(values) if value is not _MISSING), None)


_MISSING = object()


def _value(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path, or the value where the path ends early; ``_MISSING`` if there is none."""
    node: Any = values
    for part in path:
        if not isinstance(node, Mapping):
            return node
        node = node.get(part, _MISSING)
    return node
