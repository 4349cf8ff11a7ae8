"""Settings as YAML, and the differences between two configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import yaml

from nmt.config.mistakes import as_yaml
from nmt.config.sections import Config

# Settings that may change on resume: they decide how long, where and how visibly a run trains, not what it learns.
_CHANGEABLE_ON_RESUME = (
    "training.max_updates",
    "training.max_minutes",
    "training.patience",
    "training.device",
    "training.threads",
    "training.deterministic",
    "training.compile",
    "training.bucket_megabytes",
    "training.max_skipped",
    "batching.micro_batch_tokens",
    "checkpoints.",
    "logging.",
    "decoding.",
)


def dump_config(config: Config) -> str:
    """The settings as YAML, every default resolved."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def described(config: Config) -> dict[str, list[tuple[str, str, str]]]:
    """Section -> its settings: key, value as YAML, and allowed values and description.

    The section ``data`` is left out: it follows from the data sets.
    """
    sections = {}
    for name, values in config.model_dump(mode="json", exclude={"data"}).items():
        fields = type(getattr(config, name)).model_fields
        sections[name] = [
            (key, as_yaml(value), ". ".join(filter(None, (_choices(fields[key].annotation), fields[key].description))))
            for key, value in values.items()
        ]
    return sections


def describe_config(config: Config) -> str:
    """The settings that a user may set as YAML, each with a comment."""
    lines = []
    for name, settings in described(config).items():
        lines.append(f"{name}:")
        lines += [f"  {key}: {value}" + (f"  # {comment}" if comment else "") for key, value, comment in settings]
    return "".join(f"{line}\n" for line in lines)


def _choices(annotation: Any) -> str:
    """The allowed values of a setting that has a fixed set of them, else no text."""
    return ", ".join(get_args(annotation)) if get_origin(annotation) is Literal else ""


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of a tree of settings as ``("a.b", value)``."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differences(before: Config, after: Config) -> list[tuple[str, str, str]]:
    """Settings that differ, as (key, before, after), the values as YAML.

    Of ``data.lines``, only the maximum length counts, where both have it: with the text and the vocabulary, whose
    fingerprints are compared, it determines the others.
    """
    old, new = (
        {
            key: value
            for key, value in flatten(config.model_dump(mode="json"))
            if not key.startswith("data.lines") or key == "data.lines.max_pieces"
        }
        for config in (before, after)
    )
    return [(key, as_yaml(old[key]), as_yaml(new[key])) for key in old if old[key] != new.get(key, old[key])]


def changeable_on_resume(key: str) -> bool:
    """Whether a setting may change when a run is resumed."""
    return any(key == known or (known.endswith(".") and key.startswith(known)) for known in _CHANGEABLE_ON_RESUME)


def belongs_to_weights(key: str) -> bool:
    """Whether weights fit only the model that has this setting."""
    return key.startswith("model.") and "dropout" not in key and key != "model.alignment_layer"
