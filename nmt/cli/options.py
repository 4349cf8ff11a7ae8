"""What the options of all commands have in common: ``--quiet``, and help in groups."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
import typer.core

from nmt.cli.console import STANDARD_OUTPUT, naming_stream

_OTHERS = "Other"


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help puts its options under headings: the ``rich_help_panel`` of each.

    typer itself draws such groups as boxes of rich, which fit neither a pipe nor 80 columns.
    """

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the words of the command line; what is written meanwhile is help, to standard output."""
        with naming_stream(STANDARD_OUTPUT):
            return super().make_context(*args, **options)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, those without a group last."""
        grouped: dict[str, list[tuple[str, str]]] = {}
        others: list[tuple[str, str]] = []
        arguments: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            if group := getattr(param, "rich_help_panel", None):
                grouped.setdefault(group, []).append(record)
            else:
                (arguments if param.param_type_name == "argument" else others).append(record)
        sections = {"Arguments": arguments, **grouped, _OTHERS if grouped else "Options": others}
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option ``--quiet``."""

    @functools.wraps(command)
    def run(*args: Any, quiet: bool, **options: Any) -> None:
        if quiet:
            from nmt.cli.console import be_quiet

            be_quiet()
        command(*args, **options)

    annotation = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
    signature = inspect.signature(command, eval_str=True)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "quiet": annotation}
    return run
