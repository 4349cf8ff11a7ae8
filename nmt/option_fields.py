"""Options, each defined once: a field of a settings class in pydantic, with its default, bounds and help.

The mark :class:`Option` adds what only options have: their heading and spelling. The fields determine the command-line
options (:mod:`nmt.cli.options`), the checks and their errors (:class:`nmt.config.sections.StrictSection`), the
documentation of the Python API (:mod:`nmt.api`), and the record of an output's options
(:mod:`nmt.translation.options`). This module imports nothing slow.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

STREAMS = "Input and output"
ACCESS = "Access"
LIMITS = "Limits"
SETTINGS = "Settings"
SEARCH = "Search"
SAMPLING = "Sampling"
FORMAT = "Output format"
HARDWARE = "Hardware"
OWN_TEXT = "Your own text"
CLEANING = "Cleaning"
DOWNLOADS = "Downloads"
VOCABULARY = "Vocabulary"
CHECKPOINTS = "Checkpoints"
SCORES = "Scores"
GROUPS = (
    STREAMS, OWN_TEXT, CLEANING, DOWNLOADS, VOCABULARY, CHECKPOINTS, SCORES, ACCESS, LIMITS, SETTINGS, SEARCH, SAMPLING,
    FORMAT, HARDWARE,
)  # fmt: skip
"""Headings of options, in the order of the help."""

EngineName = Literal["torch", "ctranslate2"]
DeviceChoice = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16", "fp16", "fp64", "int8"]
PrecisionChoice = Literal["auto", Precision]
TrainingPrecision = Literal["auto", "fp32", "bf16", "fp16"]
TranslationPrecision = Literal["auto", "fp32", "bf16", "fp16", "int8"]


@dataclass(frozen=True, kw_only=True)
class Option:
    """Marks a field as an option: ``beam: Annotated[int, Option(letter="b")] = Field(4, ge=1, description="…")``.

    The description is the help: what the option does. It names other options in braces: ``{beam}``.
    """

    in_python: str | None = None
    """The text in the documentation of the Python API, if it differs from the help."""
    unset: str | None = None
    """The default in words. Without it, the field's default is shown."""
    group: str = SEARCH
    """The heading of the option in the help."""
    letter: str | None = None
    """A short form on the command line, such as ``b``."""
    word: str | None = None
    """The name on the command line, if it differs from the field's."""
    is_recorded: bool = True
    """Whether outputs depend on the option: it is recorded, and compared when an output is resumed."""
    applies_to_scoring: bool = False
    """Whether the option has an effect when given targets are scored."""


@dataclass(frozen=True)
class OptionField:
    """A field of a settings class that is an option."""

    name: str
    field: FieldInfo
    option: Option

    @property
    def default(self) -> Any:
        """The default of the field."""
        return self.field.default

    @property
    def value_type(self) -> Any:
        """The type of a given value: without None."""
        annotation = self.field.annotation
        if get_origin(annotation) in (Union, UnionType):
            [annotation] = [kind for kind in get_args(annotation) if kind is not type(None)]
        return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation

    @property
    def parts(self) -> tuple[OptionField, ...]:
        """The options of a value that is itself a settings class, such as ``Sampling``."""
        return option_fields(self.value_type) if hasattr(self.value_type, "model_fields") else ()

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return flag_of(self.option.word or self.name)

    @property
    def range(self) -> str:
        """The bounds as ``at least 1, at most 4096``; empty without bounds."""
        words = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
        bounds = ((word, getattr(each, name, None)) for each in self.field.metadata for name, word in words.items())
        return ", ".join(f"{word} {plain_number(bound)}" for word, bound in bounds if bound is not None)

    @property
    def help_text(self) -> str:
        """The help on the command line, with the default in brackets; errors say the bounds."""
        default = self.option.unset
        if default is None and self.default is True:
            default = "on"
        elif default is None and self.default is not None and self.default is not False:
            default = _plain(self.default)
        return "  ".join(filter(None, (_spelled(self.field.description or "", flag_of), _in_brackets(default))))

    @property
    def python_text(self) -> str:
        """The documentation in Python, with default and bounds in brackets."""
        text = self.option.in_python or self.field.description or ""
        default = self.option.unset if self.option.unset is not None else self.default
        default = None if default is None else f"default: {_plain(default)}"
        return " ".join(filter(None, (_spelled(text, "``{}``".format), _in_brackets(default, self.range))))

    def flag_for(self, value: Any) -> str:
        """The flag for a value: ``--no-guard`` for a switch that is off."""
        return f"--no-{self.flag.removeprefix('--')}" if value is False else self.flag


@functools.cache
def option_fields(settings: type[BaseModel]) -> tuple[OptionField, ...]:
    """The options of a settings class, in its order: the fields that are marked by :class:`Option`."""
    return tuple(
        OptionField(name, field, mark)
        for name, field in settings.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Option)
    )


def flag_of(name: str) -> str:
    """The flag of a field: ``--min-length`` for ``min_length``."""
    return "--" + name.replace("_", "-")


def _spelled(text: str, spelled: Callable[[str], str]) -> str:
    """A text whose option names in braces are replaced by their spelling."""
    return re.sub(r"\{(\w+)\}", lambda found: spelled(found[1]), text)


def _in_brackets(*facts: str | None) -> str:
    given = [fact for fact in facts if fact]
    return f"[{'; '.join(given)}]" if given else ""


def _plain(value: Any) -> str:
    return plain_number(value) if isinstance(value, float) else str(value)


def plain_number(value: float) -> str:
    """A number as a user types it, without an exponent: 4096, 0.000001."""
    return f"{Decimal(str(value)):f}".removesuffix(".0")
