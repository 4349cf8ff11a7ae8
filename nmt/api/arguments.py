"""The arguments of the API's functions: converted and checked where a function is called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import BeforeValidator, ConfigDict, ValidationError, validate_call

from nmt.config.mistakes import first_mistake
from nmt.errors import ConfigError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def several(value: object) -> object:
    """A list of what may be given alone."""
    return [value] if isinstance(value, str | PathLike) else () if value is None else value


def _text(value: object) -> object:
    return str(value) if isinstance(value, PathLike) else value


Text = Annotated[str, BeforeValidator(_text)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(several)]
"""One path or several; None stands for none."""
Texts = Annotated[tuple[Text, ...], BeforeValidator(several)]
"""As :data:`Paths`, for text."""


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Convert the arguments of a function to the types of its signature, such as text to a path.

    The function raises ConfigError if an argument is unknown, or its type or value is not allowed.
    """
    annotations = dict(function.__annotations__)
    # The options of translating are checked by their settings class.
    function.__annotations__ |= {name: Any for name, kind in annotations.items() if "Unpack[" in str(kind)}
    validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)

    @functools.wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return validated(*args, **options)
        except ValidationError as error:
            if error.title != function.__name__:
                raise
            raise ConfigError(f"{function.__name__}: {_mistake(error)}.") from None

    call.__annotations__ = annotations
    return call


def _mistake(error: ValidationError) -> str:
    problem: Any = error.errors()[0]
    name = ".".join(map(str, problem["loc"]))
    match problem["type"]:
        case "unexpected_keyword_argument":
            return f"there is no argument {name}"
        case "missing_argument" | "missing_keyword_only_argument":
            return f"{name} is missing"
    return first_mistake(error)
