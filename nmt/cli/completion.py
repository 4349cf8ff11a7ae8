"""Completion in the shell: quick, since a person waits at each press of Tab."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any


def presets(incomplete: str) -> list[str]:
    """The presets whose names begin so."""
    return _names("presets", incomplete)


def built_in_pairs(incomplete: str) -> list[str]:
    """The built-in data sets whose names begin so."""
    return _names("corpora/recipes", incomplete)


def setting_keys(incomplete: str) -> list[str]:
    """The settings whose names begin so, each with the ``=`` that comes next."""
    from nmt.config import Config, setting_names

    return [f"{name}=" for name in setting_names(Config) if name.startswith(incomplete)]


def export_formats(incomplete: str) -> list[str]:
    """The formats of exports whose names begin so: those of :mod:`nmt.convert.formats`, which is slow to import."""
    return [
        name
        for name in ("marian", "ctranslate2", "huggingface", "onnx", "argos")
        if name.startswith(incomplete.lower())
    ]


def _names(folder: str, incomplete: str) -> list[str]:
    files = [entry.name for entry in resources.files("nmt").joinpath(*folder.split("/")).iterdir()]
    return sorted(
        name.removesuffix(".yaml") for name in files if name.endswith(".yaml") and name.startswith(incomplete)
    )


@contextmanager
def leaving_values(params: Iterable[Any]) -> Iterator[None]:
    """Read the words before the cursor, but neither convert their values nor act on them.

    Conversion imports pydantic, which takes longer than all else; and ``--version`` before the cursor would print.
    """
    params = list(params)
    for param in params:
        param.process_value = _as_typed
    try:
        yield
    finally:
        for param in params:
            del param.process_value  # which uncovers the method of its class


def _as_typed(ctx: Any, value: Any) -> Any:
    return value
