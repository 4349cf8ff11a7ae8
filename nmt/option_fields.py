"""Options, each defined once: a field of a settings dataclass, with its help and bounds as metadata.

The fields determine the command-line options (:mod:`nmt.cli.options`), the checks and their errors
(:mod:`nmt.config.option_values`), the documentation of the Python API (:mod:`nmt.api`), and the record of an output's
options (:mod:`nmt.translation.options`). This module imports nothing slow, so that ``--help`` answers at once.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass
from decimal import Decimal
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

STREAMS = "Input and output"
SETTINGS = "Settings"
SEARCH = "Search"
SAMPLING = "Sampling"
FORMAT = "Output format"
HARDWARE = "Hardware"
GROUPS = (STREAMS, SETTINGS, SEARCH, SAMPLING, FORMAT, HARDWARE)
"""Headings of options, in the order of the help."""

EngineName = Literal["torch", "ctranslate2"]
DeviceChoice = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16", "fp16", "fp64", "int8"]
PrecisionChoice = Literal["auto"] | Precision


@dataclass(frozen=True)
class Option:
    """Metadata that makes a field an option: ``beam: Annotated[int, Option("Beam size.", at_least=1)] = 4``."""

    help: str
    """What the option does, in at most ten words. Other options are named in braces: ``{beam}``."""
    _: KW_ONLY
    in_python: str | None = None
    """The text in the documentation of the Python API, if it differs from the help."""
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
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
    """A field of a settings dataclass that is an option."""

    name: str
    type: Any
    """The type of the field, without its metadata."""
    default: Any
    option: Option

    @property
    def default_value(self) -> Any:
        """The default; None if it is described in words."""
        return self.default if self.option.unset is None else None

    @property
    def value_type(self) -> Any:
        """The type of a given value: without None."""
        if get_origin(self.type) not in (Union, UnionType):
            return self.type
        kinds = [kind for kind in get_args(self.type) if kind is not type(None)]
        return Union[tuple(kinds)]  # noqa: UP007

    @property
    def parts(self) -> tuple[OptionField, ...]:
        """The options of a value that is itself a settings dataclass, such as ``Sampling``."""
        kind = self.value_type
        return option_fields(kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else ()

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return "--" + (self.option.word or self.name).replace("_", "-")

    @property
    def range(self) -> str:
        """The bounds as ``1<=x<=4096``; empty without bounds."""
        option = self.option
        low = f"{plain_number(option.at_least)}<=" if option.at_least is not None else ""
        if option.above is not None:
            low = f"{plain_number(option.above)}<"
        if option.at_most is not None:
            return f"{low}x<={plain_number(option.at_most)}"
        return f"x>{'=' * low.endswith('=')}{low.rstrip('<=')}" if low else ""

    @property
    def help_text(self) -> str:
        """The help on the command line, with the default in brackets; errors say the bounds."""
        default = self.option.unset
        if default is None and self.default is True:
            default = "on"
        elif default is None and self.default is not None and self.default is not False:
            default = _plain(self.default)
        return "  ".join(filter(None, (_spelled(self.option.help, flag_of), _in_brackets(default))))

    @property
    def python_text(self) -> str:
        """The documentation in Python, with default and bounds in brackets."""
        text = self.option.help if self.option.in_python is None else self.option.in_python
        default = self.option.unset if self.option.unset is not None else self.default
        default = None if default is None else f"default: {_plain(default)}"
        return " ".join(filter(None, (_spelled(text, "``{}``".format), _in_brackets(default, self.range))))

    def flag_for(self, value: Any) -> str:
        """The flag for a value: ``--no-guard`` for a switch that is off."""
        word = self.flag.removeprefix("--")
        return f"--{'no-' if value is False else ''}{word}"


@functools.cache
def option_fields(settings: type) -> tuple[OptionField, ...]:
    """The options of a settings dataclass, in its order; fields without :class:`Option` are not options."""
    hints = get_type_hints(settings, include_extras=True)
    found = []
    for field in dataclasses.fields(settings):
        annotation = hints[field.name]
        if get_origin(annotation) is not Annotated:
            continue
        kind, *extras = get_args(annotation)
        for option in extras:
            if isinstance(option, Option):
                default = None if field.default is MISSING else field.default
                found.append(OptionField(field.name, kind, default, option))
    return tuple(found)


def flag_of(name: str) -> str:
    """The flag of a field: ``--min-length`` for ``min_length``."""
    return "--" + name.replace("_", "-")


def flags_unused_in_scoring(settings: type, given: Mapping[str, Any]) -> list[str]:
    """Flags of options that have no effect when given targets are scored, but were changed from their defaults.

    Args:
        given: values by field.
    """
    return [
        field.flag_for(given[field.name])
        for field in option_fields(settings)
        if not field.option.applies_to_scoring and field.name in given and given[field.name] != field.default_value
    ]


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
