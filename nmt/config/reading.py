"""Reading settings from presets, YAML files and ``--set a.b=value``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from nmt.config.documents import DEEPEST_TREE, LARGEST_FILE, DocumentError, parse_yaml
from nmt.config.layering import Layer, overlay, parse_layers
from nmt.config.mistakes import did_you_mean
from nmt.config.sections import Config
from nmt.errors import ConfigError

_PRESETS = resources.files("nmt") / "presets"


def preset_names() -> list[str]:
    """The built-in presets, smallest model first."""
    names = [entry.name.removesuffix(".yaml") for entry in _PRESETS.iterdir()]
    known_order = ["tiny", "small", "base", "big"]
    return sorted((name for name in names if not name.startswith("_")), key=known_order.index)


def load_preset(name: str) -> dict[str, Any]:
    """The settings of a built-in preset, unchecked.

    Raises:
        ConfigError: there is no such preset.
    """
    if name not in preset_names():
        raise ConfigError(
            f"there is no preset {name!r}{did_you_mean(name, preset_names())}; "
            f"presets are {', '.join(preset_names())}. For your own file use --config."
        )
    return _parse_yaml(_PRESETS.joinpath(f"{name}.yaml").read_text("utf-8"), name)


def load_yaml(path: Path) -> dict[str, Any]:
    """The settings of a YAML file, unchecked.

    Raises:
        ConfigError: the file cannot be read or is not a mapping.
    """
    try:
        with path.open("rb") as stream:
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


def apply_settings(values: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Override a tree of values by ``a.b=value`` settings; the values are read as YAML.

    Raises:
        ConfigError: a setting has no ``=``, or its value is not YAML.
    """
    result = dict(values)
    for setting in settings:
        result = overlay(result, setting_layer(setting).values)
    return result


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
