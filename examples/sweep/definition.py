"""What a sweep's YAML file says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from nmt.config import Config, Layer, Section, load_preset, load_yaml, mistakes, parse_layers, setting_layer
from nmt.config.mistakes import as_yaml
from nmt.errors import ConfigError


class Published(Section):
    """A row's figures in the paper."""

    parameters: float | None = Field(None, description="in millions")
    perplexity: float | None = None
    bleu: float | None = None


class Row(Section):
    """A model of the sweep, and what sets it apart."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 .=/+_-]*$")
    settings: dict[str, Any] = Field(default_factory=dict, description="by their full names: {model.heads: 1}")
    paper: Published = Published()

    @property
    def folder(self) -> str:
        """The name as that of a folder."""
        return re.sub(r"[^A-Za-z0-9.-]+", "-", self.name)


class Sweep(Section):
    """The rows of a table, each trained from the same preset."""

    title: str
    preset: str
    settings: dict[str, Any] = Field(default_factory=dict, description="of all rows")
    rows: list[Row] = Field(min_length=1)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="by default that of the file and its folder")

    @classmethod
    def read(cls, path: Path) -> Sweep:
        """Read and check a sweep, with the settings of every row.

        Raises:
            ConfigError: the file cannot be read, a key or setting is unknown, or two rows have one name.
        """
        try:
            sweep = cls.model_validate({"name": _name_of(path)} | load_yaml(path))
        except ValidationError as error:
            raise ConfigError("\n".join(mistakes(error.errors(), cls, lambda _: str(path), noun="key"))) from None
        folders = [row.folder for row in sweep.rows]
        if twice := {folder for folder in folders if folders.count(folder) > 1}:
            raise ConfigError(f"{path}: {', '.join(sorted(twice))}: the name of several rows. Give each its own.")
        for row in sweep.rows:
            sweep.config(row)
        return sweep

    @property
    def folder(self) -> Path:
        """Where the runs go by default."""
        return Path("sweeps") / self.name

    def changes(self, row: Row) -> list[str]:
        """The settings of a row that its preset does not have, as ``KEY=VALUE``."""
        return list(_assignments(self.settings | row.settings))

    def config(self, row: Row, more: Iterable[str] = ()) -> Config:
        """All settings of a row.

        Raises:
            ConfigError: a setting is unknown or has an invalid value.
        """
        changes = [setting_layer(each).values for each in (*self.changes(row), *more)]
        name = f"{self.name}, {row.name}"
        return parse_layers([Layer(name, values) for values in (load_preset(self.preset), *changes)])


def _name_of(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "-", f"{path.resolve().parent.name}-{path.stem}").strip("-.")


def _assignments(settings: Mapping[str, Any]) -> Iterable[str]:
    for key, value in settings.items():
        yield f"{key}={as_yaml(value)}"
