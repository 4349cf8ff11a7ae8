"""The arguments of the API's functions: converted and checked where a function is called."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import BeforeValidator, ConfigDict, ValidationError, validate_call

from nmt.config.mistakes import first_mistake
from nmt.errors import ConfigError, NmtError

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

    The function raises ConfigError if an argument is unknown, or its type or value is not allowed. Its errors call
    arguments as Python does; the command line prints :attr:`nmt.NmtError.typed`.
    """
    annotations = dict(function.__annotations__)
    # The values of the options of translating are checked by their settings class.
    unpacked = {name: str(kind) for name, kind in annotations.items() if "Unpack[" in str(kind)}
    function.__annotations__ |= dict.fromkeys(unpacked, Any)
    parameters = inspect.signature(function).parameters.values()
    known = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    for kind in unpacked.values():
        known |= set(function.__globals__[kind.removeprefix("Unpack[").removesuffix("]")].__annotations__)
    validated = validate_call(config=ConfigDict(arbitrary_types_allowed=True))(function)

    @functools.wraps(function)
    @naming_arguments(known)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            if unknown := [name for name in options if name not in known]:
                near = difflib.get_close_matches(unknown[0], known, n=1)
                hint = f"; did you mean {near[0]}?" if near else "."
                raise ConfigError(f"{function.__name__}: there is no argument {unknown[0]}{hint}")
            return validated(*args, **options)
        except ValidationError as error:
            if error.title != function.__name__:
                raise
            raise ConfigError(f"{function.__name__}: {_mistake(error)}.") from None

    call.__annotations__ = annotations
    return call


@contextmanager
def naming_arguments(known: Collection[str]) -> Iterator[None]:
    """Call arguments in errors as Python does; also a decorator. :attr:`nmt.NmtError.typed` keeps the flags."""
    try:
        yield
    except NmtError as error:
        error.typed = error.typed or str(error)
        error.args = (_in_python(error.typed, known),)
        raise


def _in_python(message: str, known: Collection[str]) -> str:
    """A message with the names of arguments in place of their flags, but for the words of a command to run."""

    def spelled(found: re.Match[str]) -> str:
        name = (found["flag"] or "").replace("-", "_")
        return name if name in known else found[0]

    command = r"\bnmt [a-z-]+ (?:[^`;().:]|[.:](?=\S))*"
    return re.sub(rf"{command}|(?<![\w-])--(?P<flag>[a-z][a-z-]*)", spelled, message)


def _mistake(error: ValidationError) -> str:
    problem: Any = error.errors()[0]
    name = ".".join(map(str, problem["loc"]))
    match problem["type"]:
        case "missing_argument" | "missing_keyword_only_argument":
            return f"{name} is missing"
    return first_mistake(error)
