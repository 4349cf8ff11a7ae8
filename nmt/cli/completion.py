"""Completion in the shell: quick, since a person waits at each press of Tab."""

from __future__ import annotations

from importlib import resources


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
