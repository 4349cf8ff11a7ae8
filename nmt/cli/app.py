"""The ``nmt`` command: its subcommands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import functools
import importlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn

import typer

import nmt
from nmt.cli.console import print_error, write_stdout
from nmt.cli.options import CommandGroup, GroupedCommand, UsageError
from nmt.cli.process import (
    discard_stdout,
    end_interrupted,
    flush_stdout,
    interrupt_once,
    open_closed_streams,
    print_own_warnings,
)
from nmt.errors import NmtError
from nmt.io.writing import FAULTS

_COMMANDS = {
    "prepare-data": ("prepare_data", "Fetch parallel text, or take your own, and clean it."),
    "build-vocab": ("build_vocab", "Train a vocabulary, and encode the text with it."),
    "train": ("train", "Train a Transformer, or resume a run."),
    "average-checkpoints": ("average_checkpoints", "Average the weights of several checkpoints."),
    "translate": ("translate", "Translate lines of text."),
    "score": ("score", "Score translations: BLEU, chrF, TER."),
    "adapt": ("adapt", "Fine-tune a model on your translations, and compare."),
    "score-target": ("score_target", "Score given translations by a model."),
    "synthesize": ("synthesize", "Make a data set by translating text in one language."),
    "serve": ("serve", "Translate over HTTP: for people and programs."),
    "compare": ("compare", "Show where the translations of two systems differ."),
    "inspect": ("inspect", "Show where something comes from, and whether it changed."),
    "import": ("convert.import_model", "Import a model of another toolkit."),
    "export": ("convert.export_model", "Export a model to another toolkit."),
    "report": ("report", "Write a page about training runs."),
    "attention": ("attention", "Draw the attention in sentences and their translations."),
    "doctor": ("doctor", "Check this machine and measure its speed."),
}
"""Each command: its place in ``nmt.cli``, and its line of the help. The place is a module, which holds a function of
that name, or a function of another name."""


@functools.cache
def _command(name: str) -> Any:
    """A command, made of its function."""
    place, short_help = _COMMANDS[name]
    module, _, function = place.partition(".")
    command = getattr(importlib.import_module(f"nmt.cli.{module}"), function or module)
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    program.command(name, short_help=short_help, cls=GroupedCommand)(command)
    return typer.main.get_command(program)


class _Commands(Mapping[str, Any]):
    """The commands by name. Only the module of a command that is asked for is imported: the others take long."""

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)

    def __getitem__(self, name: str) -> Any:
        if name not in _COMMANDS:
            raise KeyError(name)
        return _command(name)


class _Group(CommandGroup):
    """Turns what a command raises into a message and an exit code: 2 for a user's mistake, 128 + a signal's number."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, in the order of the help."""
        return list(_COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in _COMMANDS.items()])

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except UsageError as error:
            _refuse_usage(error, "nmt")
        except BrokenPipeError:
            raise
        except OSError as error:  # of --install-completion
            _refuse_by_system(error)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except NmtError as error:
            if os.environ.get("NMT_DEBUG"):
                raise
            print_error(error.typed or str(error))
            sys.exit(2)
        except UsageError as error:
            _refuse_usage(error, " ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand))))
        except BrokenPipeError:
            # Whoever read our output has gone, which is no error.
            discard_stdout()
            sys.exit(0)
        except OSError as error:
            _refuse_by_system(error)
        except KeyboardInterrupt as error:
            number = next(iter(error.args), signal.SIGINT)
        # Only now: while it is handled, the exception keeps alive all that it passed through.
        return end_interrupted(number)


def _refuse_by_system(error: OSError) -> NoReturn:
    # A file that cannot be read or written is the user's to fix, and so is a disk; all else is a fault of ours.
    # To close what could not be written fails a second time, without a name.
    before = error.__context__
    name = error.filename
    if name is None and isinstance(before, OSError) and before.errno == error.errno:
        name = before.filename
    if os.environ.get("NMT_DEBUG") or (name is None and error.errno not in FAULTS):
        raise error
    print_error(f"{name or 'a file that the system does not name'}: {error.strerror}.")
    discard_stdout()
    sys.exit(2)


def _refuse_usage(error: Any, command: str) -> NoReturn:
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    message = _usage_mistake(error, command)
    end = "" if message.endswith("?") else "."
    print_error(f"{message}{end} See {error.ctx.command_path if error.ctx else command} --help.")
    sys.exit(2)


def _usage_mistake(error: Any, command: str) -> str:
    """What was typed wrongly: in the words of typer, or in ours where those say less than we know."""
    if isinstance(error, typer.BadParameter) and error.param is not None:
        return f"{max(error.param.opts, key=len)}: {_value_mistake(error)}" if error.message else _missing(error.param)
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        params = error.ctx.command.get_params(error.ctx)
        known = [word for param in params if param.param_type_name == "option" for word in param.opts]
        return _unknown("option", error.option_name, known, error.ctx.command.name)
    message: str = error.format_message().rstrip(".")
    if unknown := re.match(r"No such command '(.*?)'", message):
        return _unknown("command", unknown[1], error.ctx.command.list_commands(error.ctx))
    found = re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message)
    if found is None:
        return message[:1].lower() + message[1:]
    message = f"unexpected argument: {found[1]}"
    if command.endswith(" translate"):
        message = f"translate takes one input only; {message}. Name the model with --model, the output with --output"
    if command.endswith((" build-vocab", " train")) and os.path.isdir(found[1]):  # noqa: PTH112 - Path.is_dir fails on a long name
        message += f". Use --data {found[1]}"
    elif command.endswith(" prepare-data"):
        message += ". The name of the data set comes first, then --train with its texts"
    elif keys := [text for text in (error.ctx.params.get("set") or []) if "=" not in text]:
        message += f". --set takes KEY=VALUE, as in --set {keys[0]}={found[1]}"
    return message


def _missing(param: Any) -> str:
    """Which option or argument is missing, with its help."""
    name = param.metavar if param.param_type_name == "argument" else f"{max(param.opts, key=len)} {param.metavar}"
    return f"missing {param.param_type_name}: {name} ({param.help.rstrip('.')})"


def _value_mistake(error: Any) -> str:
    """Why a value is not of its option's type or not within its bounds."""
    from pydantic import ValidationError

    from nmt.config.mistakes import first_mistake

    cause = error.__cause__
    if not isinstance(cause, ValidationError) or cause.errors()[0]["type"] == "value_error":
        message: str = error.message
        return message.removeprefix("Value error, ").rstrip(".")
    message = first_mistake(cause)
    thousands = re.search(r"expected a whole number, got '(\d+)k'", message, re.IGNORECASE)
    return f"{message}. Write {thousands[1]}000" if thousands else message


def _unknown(kind: str, typed: str, known: list[str], command: str | None = None) -> str:
    from nmt.cli.other_names import advice

    useful = advice(typed, known, command, {} if command is None else _all_options())
    return f"no such {kind}: {typed}" + (f". {useful}" if useful else "")


def _all_options() -> dict[str, set[str]]:
    """The spellings of the options of each command."""
    return {
        name: {word for param in _command(name).params if param.param_type_name == "option" for word in param.opts}
        for name in _COMMANDS
    }


app = typer.Typer(
    name="nmt",
    cls=_Group,
    help="Neural machine translation, from raw parallel text to a scored translator.",
    epilog="The first six, in this order, make a translator.\n\nBegin: nmt prepare-data toy-en-de",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        # Choices and options are read in either case: --metric BLEU.
        "token_normalize_func": str.casefold,
    },
)


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:  # as in the shell's completion
        write_stdout(f"nmt {nmt.__version__}\n")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Hold the options of ``nmt`` itself."""


def main() -> None:
    """Run the command line and end the process."""
    open_closed_streams()
    print_own_warnings()
    interrupt_once()
    if os.name != "posix":
        print_error("nmt runs on Linux and macOS. On Windows run it within WSL.")
        sys.exit(2)
    try:
        # By this name also as `python -m nmt`, since the shell's completion is for `nmt`.
        app(prog_name="nmt")
    except SystemExit:
        try:
            flush_stdout()
        except KeyboardInterrupt:
            end_interrupted()
        raise
