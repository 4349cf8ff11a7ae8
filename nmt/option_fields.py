"""Options, each defined once: a parameter of a function, or a field of a settings class in pydantic, with its type,
default, bounds and help.

The mark :class:`Option` adds what only options have: their help, heading and spelling. Marked parameters and fields
determine the command-line options (:mod:`nmt.cli.options`), the checks and their errors (:mod:`nmt.api.arguments`,
:class:`nmt.config.sections.StrictSection`), the documentation of the Python API, and the record of an output's options
(:mod:`nmt.translation.options`). This module imports nothing slow.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel

STREAMS = "Input and output"
ACCESS = "Access"
LIMITS = "Limits"
SETTINGS = "Settings"
TEACHER = "Teacher"
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
    FORMAT, TEACHER, HARDWARE,
)  # fmt: skip
"""Headings of options, in the order of the help."""

EngineName = Literal["torch", "ctranslate2"]
DeviceChoice = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16", "fp16", "fp64", "int8"]
PrecisionChoice = Literal["auto", Precision]
TrainingPrecision = Literal["auto", "fp32", "bf16", "fp16"]
TranslationPrecision = Literal["auto", "fp32", "bf16", "fp16", "int8"]


@dataclass(frozen=True)
class Option:
    """Marks a parameter or a field as an option: ``size: Annotated[int | None, Ge(1), Option("Pieces.")] = None``."""

    help: str = ""
    """What the option does; the default is added. It names other options in braces: ``{beam}``. A field has it as its
    description."""
    group: str | None = SEARCH
    """The heading of the option in the help."""
    _: KW_ONLY
    in_python: str | None = None
    """The text in the documentation of the Python API, if it differs from the help."""
    unset: str | None = None
    """The default in words. Without it, the field's default is shown."""
    letter: str | None = None
    """A short form on the command line, such as ``b``."""
    word: str | None = None
    """The name on the command line, if it differs from the field's."""
    metavar: str | None = None
    """What the help calls the value, if not by its type."""
    is_recorded: bool = True
    """Whether outputs depend on the option: it is recorded, and compared when an output is resumed."""
    applies_to_scoring: bool = False
    """Whether the option has an effect when given targets are scored."""


@dataclass(frozen=True)
class Argument(Option):
    """Marks an option that the command line takes by its position, and calls by its ``metavar``."""

    group: str | None = None


REQUIRED = inspect.Parameter.empty
"""The default of an option that must be given."""


@dataclass(frozen=True)
class OptionField:
    """A parameter of a function or a field of a settings class that is an option."""

    name: str
    annotation: Any
    default: Any
    marks: tuple[Any, ...]
    """What the type is annotated with: the option, its bounds."""
    help: str
    option: Option

    @property
    def is_list(self) -> bool:
        """Whether several values may be given."""
        return any(get_origin(kind) in (list, tuple) for kind in _kinds(self.annotation))

    @property
    def _has_none(self) -> bool:
        return self.default is None or self.default is REQUIRED or self.default == ()

    @property
    def value_type(self) -> Any:
        """The type of one given value: that of ``tuple[Path, ...]`` and of ``Path | None`` is ``Path``."""
        return _kinds(self.annotation)[-1]

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
        return ", ".join(f"{words[name]} {plain_number(bound)}" for name, bound in self.bounds.items())

    @property
    def bounds(self) -> dict[str, float]:
        """The bounds by their names in pydantic: ``ge``, ``gt``, ``le``, ``lt``."""
        names = ("ge", "gt", "le", "lt")
        return {
            name: bound for mark in self.marks for name in names if (bound := getattr(mark, name, None)) is not None
        }

    @property
    def help_text(self) -> str:
        """The help on the command line, with the default in brackets; errors say the bounds."""
        default = self.option.unset
        if default is None and self.default is not False and not self._has_none:
            default = "on" if self.default is True else _plain(self.default)
        return _spelled("  ".join(filter(None, (self.help, _in_brackets(default)))), flag_of)

    @property
    def python_text(self) -> str:
        """The documentation in Python, with default and bounds in brackets."""
        text = self.option.in_python or self.help
        default = self.option.unset
        if default is None and not self._has_none:
            default = _plain(self.default)
        default = None if default is None else f"default: {default}"
        return _spelled(" ".join(filter(None, (text, _in_brackets(default, self.range)))), "``{}``".format)

    def flag_for(self, value: Any) -> str:
        """The flag for a value: ``--no-guard`` for a switch that is off."""
        return f"--no-{self.flag.removeprefix('--')}" if value is False else self.flag


@functools.cache
def option_fields(settings: type[BaseModel]) -> tuple[OptionField, ...]:
    """The options of a settings class, in its order: the fields that are marked by :class:`Option`."""
    return tuple(
        OptionField(name, field.annotation, field.default, tuple(field.metadata), field.description or "", mark)
        for name, field in settings.model_fields.items()
        for mark in field.metadata
        if isinstance(mark, Option)
    )


@functools.cache
def option_parameters(function: Callable[..., Any]) -> tuple[OptionField, ...]:
    """The options of a function, in its order: the parameters that are marked by :class:`Option`."""
    function = inspect.unwrap(function)
    found = []
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, str) and kind.startswith("Annotated["):  # other names may stand for types alone
            kind = eval(kind, function.__globals__)
        marks = getattr(kind, "__metadata__", ())
        found += [
            OptionField(parameter.name, kind, parameter.default, marks, mark.help, mark)
            for mark in marks
            if isinstance(mark, Option)
        ]
    return tuple(found)


def _kinds(annotation: Any) -> list[Any]:
    """A type and the types within it, down to that of one value: without None and annotations."""
    inner = [kind for kind in get_args(annotation) if kind not in (type(None), ...)]
    if get_origin(annotation) in (Annotated, Union, UnionType, list, tuple):
        return [annotation, *_kinds(inner[0])]
    return [annotation]


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
