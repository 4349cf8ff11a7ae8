"""The values of options, checked against their definition."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Annotated, Any

from pydantic import ConfigDict, Field, InstanceOf, ValidationError, create_model

from nmt.config.mistakes import option_mistakes
from nmt.config.sections import Section
from nmt.errors import ConfigError
from nmt.option_fields import OptionField, option_fields

_INSTANCE_OF: Any = InstanceOf


class _Values(Section):
    """Values are not converted: text is not a number, and a number is not a Boolean."""

    model_config = ConfigDict(strict=True)


def check_options(settings: type, values: Mapping[str, Any], called: Callable[[str], str] = str) -> dict[str, Any]:
    """Check the values of the given options.

    Args:
        settings: a dataclass whose fields are options.
        values: values by field.
        called: returns the user's name of a field.

    Returns:
        The values; numbers of other libraries are converted to Python's.

    Raises:
        ConfigError: an option is unknown (the nearest known one is named) or its value is not allowed.
    """
    model = _model(settings)
    try:
        checked = model.model_validate({name: _plain(value) for name, value in values.items()})
    except ValidationError as error:
        raise ConfigError("\n".join(option_mistakes(error.errors(), model, called))) from None
    return {name: getattr(checked, name) for name in values}


@functools.cache
def _model(settings: type) -> type[_Values]:
    fields: dict[str, Any] = {field.name: (_checked_type(field), field.default) for field in option_fields(settings)}
    return create_model("Options", __base__=_Values, **fields)


def _checked_type(field: OptionField) -> Any:
    if field.parts:
        # The value's own fields were checked when it was created.
        return _INSTANCE_OF[field.value_type] | None
    option = field.option
    return Annotated[field.type, Field(ge=option.at_least, gt=option.above, le=option.at_most)]


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value
