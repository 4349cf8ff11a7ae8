"""Commands: options derived from their definitions (:mod:`nmt.option_fields`), and help in groups."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from importlib import resources
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
import typer.core

from nmt.cli.console import be_quiet, notice
from nmt.errors import ConfigError
from nmt.io.streams import STANDARD_OUTPUT, naming_stream
from nmt.option_fields import GROUPS, STREAMS, Argument, Option, OptionField, flag_of, option_fields, option_parameters

if TYPE_CHECKING:
    from nmt.config.section import StrictSection

# What typer raises where a command was typed wrongly. It keeps the class to itself, but not its children.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_OTHERS = "Other"
# Folders and pages are written to --out, lines to --output; either word is understood.
_SAME = {"--out": "--output", "--output": "--out"}
_SEVERAL = frozenset({"--train", "--valid", "--test"})
"""Options that take several texts after the name of a data set."""
_MODELS = ("MODEL", "RUN")
"""Arguments that are models."""
_METAVARS = {int: "N", float: "X", Path: "PATH"}
"""What the help calls the value of an option that names it no other way."""


def _yaml_names(folder: str) -> Callable[[str], list[str]]:
    """Completion of the names of the YAML files in a folder of this program."""

    def complete(incomplete: str) -> list[str]:
        files = [entry.name for entry in resources.files("nmt").joinpath(*folder.split("/")).iterdir()]
        names = [name.removesuffix(".yaml") for name in files if name.endswith(".yaml")]
        return sorted(name for name in names if name.startswith(incomplete))

    return complete


def _setting_keys(incomplete: str) -> list[str]:
    """The settings whose names begin so, each with the ``=`` that comes next."""
    from nmt.config import Config, setting_names

    return [f"{name}=" for name in setting_names(Config) if name.startswith(incomplete)]


def _formats(incomplete: str) -> list[str]:
    """The formats of exports whose names begin so: those of :mod:`nmt.convert.formats`, which is slow to import."""
    formats = ("marian", "ctranslate2", "huggingface", "argos")
    return [name for name in formats if name.startswith(incomplete.lower())]


_COMPLETIONS: dict[str, Callable[[str], list[str]]] = {
    "dataset": _yaml_names("corpora/recipes"), "preset": _yaml_names("presets"), "set": _setting_keys, "to": _formats,
}  # fmt: skip
"""Option -> completion of its value in the shell. The values of a ``Literal`` and files are completed in any case."""
_QUIET = OptionField("quiet", bool, False, (), "Print warnings and errors only.", Option(letter="q", group=None))

MODEL = Option("A run or bundle.", STREAMS, unset="newest run", letter="m")
JSON = Option("Print JSON.", STREAMS, word="json")
"""Options that commands of no function of the Python API share."""


def model_to_use(model: Path | None) -> Path:
    """The bundle of a model, or of the newest run; it is printed."""
    from nmt.checkpoint.describing import models_to_use
    from nmt.loading import NamedModels

    chosen = NamedModels("torch", *models_to_use([] if model is None else [model]))
    for line in chosen.notices:
        notice(line)
    return chosen.folders[0]


def _is_value(word: str) -> bool:
    """Whether a word of the command line is a value rather than an option."""
    return word == "-" or not word.startswith("-")


class _HelpToStdout:
    """For commands and groups: an error in writing the help names standard output, and a usage error what was typed."""

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **options: Any) -> Any:
        """Read the words of the command line; what is written meanwhile is help."""
        typed = list(args)
        try:
            with naming_stream(STANDARD_OUTPUT):
                return super().make_context(info_name, args, *others, **options)  # type: ignore[misc]
        except UsageError as error:
            # Options are read in either case, and the error has the name in lower case.
            if (name := getattr(error, "option_name", None)) is not None:
                as_typed = (word[: len(name)] for word in typed if word.casefold().startswith(name))
                error.option_name = next(as_typed, name)  # type: ignore[attr-defined]
            raise


class CommandGroup(_HelpToStdout, typer.core.TyperGroup):
    """A group of commands; ``nmt help train`` is ``nmt train --help``, and ``nmt version`` is ``nmt --version``."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the words of the command line."""
        if args[:1] in (["help"], ["version"]):
            args = [*args[1:], f"--{args[0]}"]
        return super().parse_args(ctx, args)


class GroupedCommand(_HelpToStdout, typer.core.TyperCommand):
    """A command whose help puts its options under headings: the ``rich_help_panel`` of each.

    typer itself draws such groups as boxes of rich, which fit neither a pipe nor 80 columns.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the words of the command line; hidden names of options are replaced by those of the help."""
        return super().parse_args(ctx, list(self._renamed(ctx, args)))

    def _renamed(self, ctx: Any, args: list[str]) -> Iterator[str]:
        """``--out`` is ``--output`` also; ``-m`` and ``--model`` may stand before a model that is an argument.

        Raises:
            UsageError: an option has no value, or an empty one, as that of a variable that is not set.
        """
        params = self.get_params(ctx)
        known = {word for param in params for word in (*param.opts, *param.secondary_opts)}
        takes_model = any(param.param_type_name == "argument" and param.metavar in _MODELS for param in params)
        aliases = {"-m": "", "--model": ""} if takes_model else {}
        aliases |= {word: other for word, other in _SAME.items() if other in known and word not in known}
        # A sentence may be empty, and begin with a hyphen.
        options = [param for param in params if not getattr(param, "is_flag", True) and param.metavar != "SENTENCE"]
        valued = {word for param in options for word in param.opts} | set(aliases)
        several = ""  # the option whose texts are being read
        is_named = False  # the data set: a value before its name may be that name
        words = iter(enumerate(args, start=1))
        for following, arg in words:
            if several and _is_value(arg):
                yield from (several, arg)
                continue
            if arg == "--":
                yield from args[following - 1 :]
                return
            name, equals, value = arg.partition("=")
            if not equals and not name.startswith("--") and name[:2] in aliases:
                name, value = name[:2], name[2:]  # -mRUN
            several = name if is_named and name in _SEVERAL & known else ""
            if name not in valued:
                is_named = is_named or _is_value(arg)
                yield arg
                continue
            if not (equals or value):
                _, value = next(words, (0, ""))
                if not _is_value(value) and value.partition("=")[0] in known | set(aliases):
                    value = ""
            if not value and not ctx.resilient_parsing:  # as in the shell's completion
                raise UsageError(f"option {name} needs a value", ctx)
            yield from filter(None, (aliases.get(name, name), value))  # without a name for an argument

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: required arguments without typer's braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options: the known groups in their order, then other groups, then options without a group."""
        grouped: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        others: list[tuple[str, str]] = []
        arguments: list[tuple[str, str]] = []
        for param in sorted(
            self.get_params(ctx), key=lambda param: (not param.required, param.param_type_name != "argument")
        ):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if param.param_type_name == "argument":
                record = (param.metavar or record[0], record[1])
            record = _shortened(*record)
            if group := getattr(param, "rich_help_panel", None):
                grouped.setdefault(group, []).append(record)
            else:
                (arguments if param.param_type_name == "argument" else others).append(record)
        heading_of_others = _OTHERS if any(grouped.values()) else "Options"
        sections = {"Arguments": arguments, **grouped, heading_of_others: others}
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records, col_max=24)


def _shortened(words: str, text: str) -> tuple[str, str]:
    """A line of the help without what an error says as well: bounds; ``--[no-]guard`` for a switch of two names."""
    words = re.sub(r"<list\[(.*)\]>", r"<\1>", words)  # a repeated choice is typed as one
    words = re.sub(r"--([a-z0-9-]+) / --no-\1", r"--[no-]\1", words)
    return words, re.sub(r" *\[[\d.<>=]*x[<>]=?[\d.]+\]$", "", text)


def command(
    function: Callable[..., Any] | None = None,
    settings: type[StrictSection] | None = None,
    *,
    only: Sequence[str] = (),
    meaning: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command: it has the options of a function, its own, those of a settings class, and ``--quiet``.

    The command of a function takes a dict first: the arguments of the function, by name. Its help begins with the first
    paragraph of the function's documentation.

    Args:
        function: the function of the Python API that the command calls.
        settings: a class whose options the function takes as keywords; those that are given are checked.
        only: the fields of the class that are options of this command; all if it is empty.
        meaning: field -> its help, for options that mean something else in this command.
    """
    of_function = () if function is None else option_parameters(function)
    fields = () if settings is None else option_fields(settings)
    of_settings = [each for field in fields if not only or field.name in only for each in (field, *field.parts)]

    def decorate(show: Callable[..., None]) -> Callable[..., None]:
        own = option_parameters(show)

        @functools.wraps(show)
        def run(*, quiet: bool = False, **words: Any) -> None:
            if quiet:
                be_quiet()
            kept = {field.name: words.pop(field.name) for field in own if field.name in words}
            asked = {field.name: value for field in of_settings if (value := words.pop(field.name, None)) is not None}
            given = words if settings is None else words | _given(settings, asked)
            show(*([] if function is None else [given]), **kept)

        parameters = [_parameter(field, is_set=True) for field in (*of_function, *own)]
        parameters += [_parameter(field, (meaning or {}).get(field.name)) for field in of_settings]
        parameters.append(_parameter(_QUIET, is_set=True))
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        summary = [] if function is None else [(inspect.getdoc(function) or "").partition("\n\n")[0]]
        run.__doc__ = "\n\n".join([*summary, inspect.getdoc(show) or ""])
        return run

    return decorate


def _parameter(field: OptionField, help: str | None = None, *, is_set: bool = False) -> inspect.Parameter:
    """What typer, which reads signatures, makes an option of.

    Args:
        help: if it differs from that of the field.
        is_set: an option that is not given has its default, and typer checks the bounds; else it is None.
    """
    option = field.option
    kind: Any = bool if field.parts else field.value_type
    metavar = option.metavar or _METAVARS.get(kind)
    if get_origin(kind) is Literal:  # typer would show the choices in small letters
        choices = {word: word for word in get_args(kind)}
        metavar = metavar or f"<{'|'.join(choices)}>"
        kind = StrEnum("Choice", choices) if field.is_list else kind  # typer takes lists of enumerations only
    details: dict[str, Any] = {
        "help": help or field.help_text,
        "metavar": metavar,
        "show_default": False,
        "rich_help_panel": option.group,
        "autocompletion": _COMPLETIONS.get(field.name),
    }
    if is_set:
        details |= {"min": field.bounds.get("ge"), "max": field.bounds.get("le")}
    if isinstance(option, Argument):
        info: Any = typer.Argument(**details)
    else:
        is_switch = kind is bool and not field.parts and (field.default is not False or option.unset is not None)
        words = [field.flag + (f"/{field.flag_for(False)}" if is_switch else "")]
        info = typer.Option(*words, *([f"-{option.letter}"] if option.letter else []), **details)
    kind = GenericAlias(list, (kind,)) if field.is_list else kind
    default = field.default if is_set and field.default != () else None
    kind = kind | None if default is None else kind
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, info], default=default
    )


def _given(settings: type[StrictSection], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a settings class among those that were given, by field.

    Raises:
        ConfigError: a value is not allowed, or belongs to an option that was not given.
    """
    given = {field.name: asked[field.name] for field in option_fields(settings) if field.name in asked}
    for field in option_fields(settings):
        own = _given(field.value_type, asked) if field.parts else {}
        if given.get(field.name) and field.parts:
            given[field.name] = field.value_type(**own)
        elif own:
            raise ConfigError(f"{flag_of(next(iter(own)))} only goes with {field.flag}.")
    settings.checked(given, called=flag_of)
    return given
