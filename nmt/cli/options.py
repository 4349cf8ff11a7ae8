"""Options that commands share, with what they mean when they are not given; options derived from their definition; and
help in groups.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
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
from nmt.option_fields import (
    DOWNLOADS,
    GROUPS,
    HARDWARE,
    SETTINGS,
    STREAMS,
    DeviceChoice,
    EngineName,
    OptionField,
    TranslationPrecision,
    flag_of,
    option_fields,
)

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


def option(help: str, *words: str, group: str | None = None, **details: Any) -> Any:
    """An option of a command.

    Args:
        help: what it does. The default is added, unless it says that itself in brackets.
        words: its spellings, if they are not that of the parameter: ``--set``, ``-o``. A switch that may be None has
            two: ``--dedup/--no-dedup``.
        group: its heading in the help.
        details: further arguments of ``typer.Option``. By default ``metavar`` is N, X or PATH, by the type.
    """
    return typer.Option(*words, help=help, show_default="[" not in help, rich_help_panel=group, **details)


def yaml_names(folder: str) -> Callable[[str], list[str]]:
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


Model = Annotated[Path | None, option("A run or bundle.  [newest run]", "-m", "--model", group=STREAMS)]
Mirrors = Annotated[
    list[str] | None,
    option("Folder or URL with the downloads, by name; tried first.", metavar="URL", group=DOWNLOADS),
]
Offline = Annotated[bool, option("Use no network; report what is missing.", group=DOWNLOADS)]
Changes = Annotated[
    list[str] | None,
    option(
        "Change a setting: model.dropout=0.3.",
        "--set",
        metavar="KEY=VALUE",
        group=SETTINGS,
        autocompletion=_setting_keys,
    ),
]
Device = Annotated[DeviceChoice, option("Where to compute.", group=HARDWARE)]
Precision = Annotated[
    TranslationPrecision, option("auto: bf16 where faster; int8: fastest on most CPUs.", group=HARDWARE)
]
Engine = Annotated[EngineName, option("ctranslate2: faster on CPUs, with fewer options.", group=HARDWARE)]
Threads = Annotated[int | None, option("CPU threads.  [all cores]", group=HARDWARE, min=1)]
Batches = Annotated[
    int | None, option("Batches searched at once.  [CPU: one per thread; GPU: 1]", group=HARDWARE, min=1)
]


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
        take_several = _SEVERAL & known if args and _is_value(args[0]) else frozenset()
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
            several = name if name in take_several else ""
            if name not in valued:
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
        for param in sorted(self.get_params(ctx), key=lambda param: not param.required):
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
    text = re.sub(r"(; | *\[)[\d.<>=]*x[<>]=?[\d.]+(\]?)$", lambda bounds: bounds[2] if ";" in bounds[1] else "", text)
    return words, text.replace("[default: ", "[").replace("; default: ", "; ")


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option ``--quiet``."""

    @functools.wraps(command)
    def run(*, quiet: bool, **words: Any) -> None:
        if quiet:
            be_quiet()
        command(**words)

    quiet = Annotated[bool, option("Print warnings and errors only.", "--quiet", "-q")]
    return _with_parameters(run, command, {"quiet": (quiet, False)})


def with_options(
    settings: type[StrictSection], *, only: Sequence[str] = (), meaning: Mapping[str, str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a settings class, after its own.

    The command takes the keyword ``options``: a dict of the values that were given, by field, all checked.

    Args:
        only: the fields that are options of this command; all if it is empty.
        meaning: field -> its help, for options that mean something else in this command.
    """
    own = [field for field in option_fields(settings) if not only or field.name in only]
    fields = [each for field in own for each in (field, *field.parts)]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**words: Any) -> None:
            asked = {field.name: value for field in fields if (value := words.pop(field.name)) is not None}
            command(**words, options=_given(settings, asked))

        helps = {field.name: field.help_text for field in fields} | dict(meaning or {})
        return _with_parameters(
            run, command, {field.name: (_typed(field, helps[field.name]), None) for field in fields}
        )

    return decorate


def _typed(field: OptionField, help: str) -> Any:
    """The type that typer makes an option of; None stands for an option that is not given."""
    kind: Any = bool if field.parts else field.value_type
    switch = f"/{field.flag_for(False)}" if kind is bool and field.default in (True, None) and not field.parts else ""
    option = typer.Option(
        field.flag + switch,
        *([f"-{field.option.letter}"] if field.option.letter else []),
        help=help,
        show_default=False,
        rich_help_panel=field.option.group,
    )
    return Annotated[kind | None, option]


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


def _with_parameters(
    run: Callable[..., None], command: Callable[..., None], further: Mapping[str, tuple[Any, Any]]
) -> Callable[..., None]:
    """Show typer, which reads signatures, a command with further parameters: name -> type, default."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [one for one in signature.parameters.values() if one.name != "options"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in further.items()
    ]
    parameters = [_completed(one) for one in parameters]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    return run


def _completed(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter with what its type says, and typer does not take from it."""
    kind, info = get_args(parameter.annotation)
    info = copy(info)  # commands share some, under names of their own
    value = _type_of_value(kind)
    info.metavar = info.metavar or _METAVARS.get(value)
    if kind is bool and info.default is ... and not info.param_decls:
        info.param_decls = [flag_of(parameter.name)]  # without --no-NAME
    if get_origin(value) is Literal and info.metavar is None:  # typer would show the choices in small letters
        info.metavar = f"<{'|'.join(map(str, get_args(value)))}>"
    is_list = any(get_origin(part) is list for part in (kind, *get_args(kind)))
    if is_list and get_origin(value) is Literal:  # typer takes lists of enumerations only
        words = {word: word for word in get_args(value)}
        kind = GenericAlias(list, (StrEnum("Choice", words),)) | None
    return parameter.replace(annotation=Annotated[kind, info])


def _type_of_value(kind: Any) -> Any:
    """The type of one value: that of ``list[Path] | None`` is ``Path``."""
    inner = [part for part in get_args(kind) if part is not type(None)]
    return _type_of_value(inner[0]) if inner and get_origin(kind) is not Literal else kind
