"""Settings from several places, one laid over the other; each error names the place that its value comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from nmt.config.mistakes import mistakes
from nmt.config.sections import Config
from nmt.errors import ConfigError


@dataclass(frozen=True)
class Layer:
    """Some settings, and where they come from."""

    name: str
    """For errors: ``preset tiny``, ``my.yaml``, ``--set model.heads=2``."""
    values: Mapping[str, Any]
    """By section."""
    is_option: bool = False
    """Whether it is an option of the command line, rather than a preset or a file."""


def parse_layers(layers: Sequence[Layer]) -> Config:
    """Lay settings over each other, the last on top, check them, and fill in every default.

    Raises:
        ConfigError: names each key that is unknown (with the nearest known one) or has a value that does not fit, and
            where it comes from.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        values = overlay(values, layer.values)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        lines = mistakes(error.errors(), Config, lambda key: origin(layers, key))
        raise ConfigError("\n".join(lines)) from None


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A tree of values with another laid over it, key by key. A section that is left empty changes nothing."""
    result = dict(below)
    for key, value in above.items():
        under = result.get(key)
        if isinstance(value, Mapping):
            result[key] = overlay(under if isinstance(under, Mapping) else {}, value)
        elif value is not None or key not in Config.model_fields:
            result[key] = value
    return result


def origin(layers: Sequence[Layer], key: str) -> str:
    """Where a setting comes from; of a section, or of the whole (``""``), all places that have a part in it."""
    path = key.split(".") if key else []
    found = [(layer, _value(layer.values, path)) for layer in layers]
    there = [(layer, value) for layer, value in found if value is not _MISSING] or found[:1]
    last, value = there[-1]
    if not isinstance(value, Mapping):
        return last.name
    files = [layer.name for layer, _ in there if not layer.is_option]
    options = [layer.name for layer, _ in there if layer.is_option]
    return " with ".join(filter(None, (" over ".join(reversed(files)), ", ".join(options))))


_MISSING = object()


def _value(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    """What lies at a path, or on the way to it where the way ends early; missing if nothing does."""
    node: Any = values
    for part in path:
        if not isinstance(node, Mapping):
            return node
        node = node.get(part, _MISSING)
    return node
