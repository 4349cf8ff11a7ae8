"""Filters as they are given on the command line: ``NAME`` or ``NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import ValidationError

from nmt.config import did_you_mean, mistakes
from nmt.config.documents import DocumentError, parse_yaml
from nmt.corpora.filters.languages import USUAL_THRESHOLD
from nmt.corpora.schema import Filters
from nmt.errors import ConfigError

_EXAMPLES = {"letters": "0.5", "long_words": "40", "max_length": "250", "max_ratio": "4", "min_score": "0.5"}
"""Values of the filters that need one."""
_USUAL = {"language_id": USUAL_THRESHOLD}
"""Values of filters that are named alone."""


def filter_changes(given: Iterable[str]) -> dict[str, Any]:
    """The settings that the words of ``--filter`` stand for. A name alone turns its filter on. It may have hyphens.

    Raises:
        ConfigError: a filter is unknown, is given twice, needs a value, or has one that is invalid.
    """
    changes: dict[str, Any] = {}
    for words in given:
        name, equals, value = words.partition("=")
        name = name.replace("-", "_")
        if name not in Filters.model_fields:
            raise ConfigError(
                f"--filter {words}: unknown filter {name!r}{did_you_mean(name, Filters.model_fields)}; "
                f"filters: {', '.join(Filters.model_fields)}."
            )
        if name in changes:
            raise ConfigError(f"--filter {words}: the filter {name} is given twice. Give it once.")
        changes[name] = _valid(name, value, words) if equals else _on(name)
    return changes


def _on(name: str) -> bool | str | float:
    """The value that turns a filter on."""
    kind = Filters.model_fields[name].annotation
    if kind is bool:
        return True
    if "drop" in get_args(kind):
        return "drop"
    if name in _USUAL:
        return _USUAL[name]
    raise ConfigError(f"--filter {name}: needs a value, such as --filter {name}={_EXAMPLES[name]}.")


def _valid(name: str, value: str, words: str) -> Any:
    """The value of a filter, written as in YAML."""
    if not value:
        raise ConfigError(f"--filter {words}: the value is missing. Give one, or null for none.")
    try:
        changes = {name: parse_yaml(value)}
        Filters.model_validate(changes)
    except DocumentError as error:
        raise ConfigError(f"--filter {words}: {error}") from None
    except ValidationError as error:
        raise ConfigError("\n".join(mistakes(error.errors(), Filters, lambda _: f"--filter {words}"))) from None
    return changes[name]
