"""Settings from presets, YAML files and ``--set a.b=value``.

Later sources override earlier ones; each error names the source of its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nmt.config.documents import DEEPEST_TREE, LARGEST_FILE, DocumentError, parse_yaml
from nmt.config.mistakes import did_you_mean, mistakes
from nmt.config.section import Section, subsection
from nmt.config.sections import Config
from nmt.errors import ConfigError
from nmt.io.regular import open_regular

PRESETS = ("tiny", "small", "practice", "base", "big")
"""The built-in presets, smallest model first."""


@dataclass(frozen=True)
class Layer:
    """Settings from one source."""

    name: str
    """The name of the source in errors: ``preset tiny``, ``my.yaml``, ``--set model.heads=2``."""
    values: Mapping[str, Any]
    """The settings by section."""
    is_option: bool = False
    """Whether the source is a command-line option, not a preset or a file."""


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a built-in preset, unchecked.

    Raises:
        ConfigError: there is no such preset.
    """
    if name not in PRESETS:
        raise ConfigError(
            f"there is no preset {name!r}{did_you_mean(name, PRESETS)}; presets are {', '.join(PRESETS)}. For your own "
            "file use --config."
        )
    return _parse_yaml((resources.files("nmt") / "presets" / f"{name}.yaml").read_text("utf-8"), name)


def load_yaml(path: Path, *, may_be_pipe: bool = False) -> dict[str, Any]:
    """The settings of a YAML file, unchecked.

    Args:
        may_be_pipe: whether the user named the file, which may then be a pipe.

    Raises:
        ConfigError: the file cannot be read or is not a mapping.
    """
    try:
        with path.open("rb") if may_be_pipe else open_regular(path) as stream:
            content = stream.read(LARGEST_FILE + 1)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read as settings ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read as settings ({error}).") from None
    if len(content) > LARGEST_FILE:
        raise ConfigError(f"{path}: cannot be read as settings (larger than {LARGEST_FILE:,} bytes, the maximum).")
    return _parse_yaml(text, str(path))


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    try:
        values = parse_yaml(text)
    except DocumentError as error:
        raise ConfigError(f"{name}: is not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{name}: expected settings as 'section: {{key: value}}', found {type(values).__name__}.")
    return values


def setting_layer(setting: str) -> Layer:
    """The layer of one ``--set a.b=value``; the value is read as YAML.

    Raises:
        ConfigError: the setting has no ``=``, or its value is not YAML.
    """
    key, equals, text = setting.partition("=")
    if not equals or not key.strip() or key.count(".") > DEEPEST_TREE:
        raise ConfigError(f"--set {setting!r}: expected KEY=VALUE, for example model.dropout=0.3.")
    try:
        value = parse_yaml(text)
    except DocumentError as error:
        raise ConfigError(f"--set {setting!r}: the value {text!r} is not valid YAML: {error}") from None
    return Layer(f"--set {setting}", _tree(key.strip(), value), is_option=True)


def option_layer(key: str, value: Any) -> Layer:
    """The layer of a setting with its own option: ``--max-updates`` for training.max_updates."""
    name = key.rpartition(".")[2].replace("_", "-")
    shown = f"{value:g}" if isinstance(value, float) else value
    return Layer(f"--{name} {shown}", _tree(key, value), is_option=True)


def _tree(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    tree: dict[str, Any] = value
    return tree


def read_config(path: Path) -> Config:
    """Read settings from a YAML file, check them, and fill in every default.

    Raises:
        ConfigError: as :func:`load_yaml` and :func:`parse_config`; the message begins with the path.
    """
    return parse_config(load_yaml(path), name=str(path))


def parse_config(values: Mapping[str, Any], *, name: str) -> Config:
    """Check a tree of values and fill in every default.

    Args:
        values: settings by section.
        name: the source of the values, for errors.

    Raises:
        ConfigError: a key is unknown (the nearest known one is named) or its value is invalid.
    """
    return parse_layers([Layer(name, values)])


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
