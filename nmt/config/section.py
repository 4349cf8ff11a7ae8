"""A part of the configuration, and settings that are given in Python or as options."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from nmt.config.mistakes import option_mistakes
from nmt.errors import ConfigError


class Section(BaseModel):
    """A part of the configuration: immutable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def subsection(section: type[Section] | None, name: str) -> type[Section] | None:
    """The section of a name within another one; None if there is none."""
    kind = section.model_fields[name].annotation if section is not None and name in section.model_fields else None
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


class StrictSection(Section):
    """Settings that are given in Python or as options: text is not a number, and a number is not a Boolean.

    Raises:
        ConfigError: a setting is unknown (the nearest known one is named) or its value is not allowed.
    """

    model_config = ConfigDict(strict=True)

    @classmethod
    def checked(cls, values: dict[str, Any], called: Callable[[str], str] = str) -> Self:
        """The settings with these values; errors call a field as ``called`` spells it, such as ``--beam``."""
        return cls.model_validate(values, context=called)

    @model_validator(mode="wrap")
    @classmethod
    def _with_own_errors(cls, values: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        try:
            return validate({name: _plain(value) for name, value in values.items()} if type(values) is dict else values)
        except ValidationError as error:
            raise ConfigError("\n".join(option_mistakes(error.errors(), cls, info.context or str))) from None


def _plain(value: Any) -> Any:
    """A number of another library, such as NumPy, as one of Python."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
