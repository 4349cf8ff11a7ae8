"""The arguments of the API's functions: converted and checked where a function is called, and documented by the options
that its signature marks (:mod:`nmt.option_fields`). The command line derives its commands from the same signatures, so
this module, and those of the functions, import nothing slow.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

from nmt.errors import ConfigError, NmtError
from nmt.option_fields import DOWNLOADS, HARDWARE, Option, OptionField, option_parameters
from nmt.reporting import SILENT, Reporter

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MIRROR = Option("Folder or URL with the downloads, by name; tried first.", DOWNLOADS, metavar="URL")
OFFLINE = Option("Use no network; report what is missing.", DOWNLOADS)
ENGINE = Option("ctranslate2: faster on CPUs, with fewer options.", HARDWARE)
DEVICE = Option("Where to compute.", HARDWARE)
PRECISION = Option("auto: bf16 where faster; int8: fastest on most CPUs.", HARDWARE)
THREADS = Option("CPU threads.", HARDWARE, unset="all cores")
BATCHES = Option("Batches searched at once.", HARDWARE, unset="CPU: one per thread; GPU: 1")
"""Options that functions share."""


@dataclass(frozen=True)
class Before:
    """As :class:`pydantic.BeforeValidator`, which takes long to import."""

    function: Callable[[object], object]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core.core_schema import no_info_before_validator_function

        return no_info_before_validator_function(self.function, handler(source))


def several(value: object) -> object:
    """A list of what may be given alone."""
    return [value] if isinstance(value, str | PathLike) else () if value is None else value


def _assignments(value: object) -> object:
    """A mapping as it is typed: ``{"model.dropout": 0.3}`` is ``model.dropout=0.3``."""
    if not isinstance(value, Mapping):
        return several(value)
    from nmt.config.mistakes import as_yaml

    return [f"{name}={as_yaml(each)}" for name, each in value.items()]


def _joined(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


def _text(value: object) -> object:
    return str(value) if isinstance(value, PathLike) else value


Text = Annotated[str, Before(_text)]
Paths = Annotated[tuple[Path, ...], Before(several)]
"""One path or several; None stands for none."""
Texts = Annotated[tuple[Text, ...], Before(several)]
"""As :data:`Paths`, for text."""
Assignments = Annotated[tuple[Text, ...], Before(_assignments)]
"""As :data:`Texts`, of ``NAME=VALUE``; also a mapping."""
Joined = Annotated[str, Before(_joined)]
"""Words with commas between them, or a list of words."""


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Convert the options of a function to the types of its signature, such as text to a path, and document them.

    The function raises ConfigError if an argument is unknown, or its type or value is not allowed. Its errors call
    arguments as Python does; the command line prints :attr:`nmt.NmtError.typed`.
    """
    signature = inspect.signature(function)
    known = {one.name: one.annotation for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD}
    for kind in map(str, function.__annotations__.values()):
        if kind.startswith("Unpack["):  # the values of these options are checked by their settings class
            known |= function.__globals__[kind[len("Unpack[") : -1]].__annotations__

    @functools.cache
    def validated() -> Callable[Arguments, Result]:
        from pydantic import ConfigDict, validate_call

        @functools.wraps(function)
        def typed(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            return function(*args, **options)

        own = {field.name: field.annotation for field in option_parameters(function)}
        typed.__annotations__ = dict.fromkeys(signature.parameters, Any) | {"report": Reporter} | own
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(typed)

    @functools.wraps(function)
    @naming_arguments(known)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        if unknown := [name for name in options if name not in known]:
            near = difflib.get_close_matches(unknown[0], known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise ConfigError(f"{function.__name__}: there is no argument {unknown[0]}{hint}")
        report = options.get("report", SILENT)
        if isinstance(report, Reporter) and not report.names_flags:
            options["report"] = _InPython(report, known)
        try:
            return validated()(*args, **options)
        except ValueError as error:
            if getattr(error, "title", None) != function.__name__:
                raise
            raise ConfigError(f"{function.__name__}: {_mistake(error, list(signature.parameters))}.") from None

    call.__doc__ = documented(function, option_parameters(function))
    shown = [one.replace(annotation=_without_marks(one.annotation)) for one in signature.parameters.values()]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return call


def _without_marks(annotation: object) -> object:
    """The type of ``Annotated[int | None, Ge(1), Option("…")]`` as it is written, for ``help``."""
    if not str(annotation).startswith("Annotated["):
        return annotation
    kind: Any = ast.parse(str(annotation), mode="eval").body
    return ast.unparse(kind.slice.elts[0])


def documented(function: Callable[..., object], options: Iterable[OptionField]) -> str | None:
    """The documentation of a function, with its options in place of the line ``own options: listed by …``."""
    written = function.__doc__
    if written is None or (found := re.search(r"^( *)own options: listed by .*\n", written, re.MULTILINE)) is None:
        return written
    lines = [
        textwrap.fill(
            f"{each.name}: {each.python_text}", 116, initial_indent=found[1], subsequent_indent=f"{found[1]}    "
        )
        for each in options
    ]
    return written.replace(found[0], "".join(f"{line}\n" for line in lines))


@contextmanager
def naming_arguments(known: Mapping[str, object]) -> Iterator[None]:
    """Call arguments in errors as Python does; also a decorator. :attr:`nmt.NmtError.typed` keeps the flags.

    Args:
        known: as of :func:`_in_python`.
    """
    try:
        yield
    except NmtError as error:
        error.typed = error.typed or str(error)
        error.args = (_in_python(error.typed, known),)
        raise


class _InPython(Reporter):
    """Passes messages on, which call arguments as Python does."""

    def __init__(self, report: Reporter, known: Mapping[str, object]) -> None:
        self._report, self._known = report, known
        self.progress = report.progress  # type: ignore[method-assign]

    def notice(self, message: str) -> None:
        self._report.notice(_in_python(message, self._known))

    def warn(self, message: str) -> None:
        self._report.warn(_in_python(message, self._known))


def _in_python(message: str, known: Mapping[str, object]) -> str:
    """A message with the names of arguments in place of their flags, but for the words of a command to run.

    Args:
        known: the type of each argument, by its name.
    """

    def spelled(found: re.Match[str]) -> str:
        if found["settings"]:
            words = found["settings"].replace("--set ", "").split()
            return f"`set=[{', '.join(map(as_text, words))}]`"
        name = (found["flag"] or "").replace("-", "_")
        switch = name.removeprefix("no_")
        if "bool" in str(known.get(switch)):
            return f"`{switch}={switch == name}`"
        return f"`{name}`" if name in known else found[0]

    as_text = '"{}"'.format
    command = r"\bnmt [a-z-]+ (?:[^`;().:]|[.:](?=\S))*"
    settings = r"--set [\w.]+=[\w.-]*\w(?: --set [\w.]+=[\w.-]*\w)*(?![^\s.,;:])"
    flag = r"(?<![\w-])--(?P<flag>[a-z][a-z-]*)"
    return re.sub(rf"`[^`]*`|{command}|(?P<settings>{settings})|{flag}", spelled, message)


def _mistake(error: Any, parameters: Sequence[str]) -> str:
    """The first problem; one of an argument that was given by its place names its parameter."""
    from nmt.config.mistakes import first_mistake

    [place, *_] = error.errors()[0]["loc"]
    if error.errors()[0]["type"] in ("missing_argument", "missing_keyword_only_argument"):
        return f"{place} is missing"
    name = dict(enumerate(parameters)).get(place, place)
    return f"{name}{first_mistake(error).removeprefix(str(place))}"
