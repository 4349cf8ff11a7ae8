"""The ``nmt`` command: its subcommands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
import typer.core

import nmt
from nmt.cli.attention import attention
from nmt.cli.average_checkpoints import average_checkpoints
from nmt.cli.bench import bench
from nmt.cli.build_vocab import build_vocab
from nmt.cli.compare import compare
from nmt.cli.completion import leaving_values
from nmt.cli.console import (
    STANDARD_OUTPUT,
    naming_stream,
    print_error,
    write_stdout,
)
from nmt.cli.doctor import doctor
from nmt.cli.export_model import export_model
from nmt.cli.import_model import import_model
from nmt.cli.inspect import inspect
from nmt.cli.options import GroupedCommand, with_quiet
from nmt.cli.prepare_data import prepare_data
from nmt.cli.process import (
    discard_stdout,
    end_interrupted,
    flush_stdout,
    interrupt_once,
    open_closed_streams,
    print_own_warnings,
)
from nmt.cli.report import report
from nmt.cli.score import score
from nmt.cli.train import train
from nmt.cli.translate import translate
from nmt.errors import NmtError
from nmt.io.writing import FAULTS

# What typer raises where a command was typed wrongly. It keeps the class to itself, but not its children.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _Commands(typer.core.TyperGroup):
    """Turns what a command raises into a message and an exit code: 2 for a user's mistake, 130 for Ctrl-C."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)
        except _UsageError as error:
            _refuse_usage(error, "nmt")
        except BrokenPipeError:
            raise
        except OSError as error:  # of --install-completion
            _refuse_by_system(error)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the words of the command line. The shell's completion asks with words that are not complete."""
        if ctx.resilient_parsing:
            with leaving_values(self.get_params(ctx)):
                return super().parse_args(ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            with naming_stream(STANDARD_OUTPUT):
                sys.stdout.flush()
            return result
        except NmtError as error:
            if os.environ.get("NMT_DEBUG"):
                raise
            print_error(str(error))
            sys.exit(2)
        except _UsageError as error:
            _refuse_usage(error, " ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand))))
        except BrokenPipeError:
            # Whoever read our output has gone, which is no error.
            discard_stdout()
            sys.exit(0)
        except OSError as error:
            _refuse_by_system(error)
        except KeyboardInterrupt:
            pass  # While it is handled, the exception keeps alive all that it passed through.
        return end_interrupted()


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
    message = re.sub(r"^Invalid value for '(--[a-z-]+)'[^:]*: ", r"\1: ", _usage_mistake(error)).rstrip(".")
    if type(error).__name__ == "NoSuchOption":
        message = _unknown_option(error)
    elif found := re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message):
        one_only = "translate takes one input only; " if command.endswith(" translate") else ""
        message = f"{one_only}unexpected argument: {found[1]}"
        if command.endswith((" build-vocab", " train")) and os.path.isdir(found[1]):  # noqa: PTH112 - Path.is_dir fails on a long name
            message += f". Use --data {found[1]}"
        elif command.endswith(" prepare-data"):
            message += ". The name of the data set comes first, then --train with its texts"
        elif keys := [text for text in (error.ctx.params.get("set_") or []) if "=" not in text]:
            message += f". --set takes KEY=VALUE, as in --set {keys[0]}={found[1]}"
    end = "" if message.endswith("?") else "."
    print_error(f"{message}{end} See {error.ctx.command_path if error.ctx else command} --help.")
    sys.exit(2)


def _unknown_option(error: Any) -> str:
    from nmt.cli.other_names import advice

    params = error.ctx.command.get_params(error.ctx)
    known = [word for param in params if not getattr(param, "hidden", False) for word in param.opts]
    useful = advice(error.ctx.command.name, error.option_name, known)
    return f"no such option: {error.option_name}" + (f". {useful}" if useful else "")


def _usage_mistake(error: Any) -> str:
    """The message of typer, or ours where a value is not of its option's type or not within its bounds."""
    from pydantic import ValidationError

    from nmt.config.mistakes import first_mistake

    cause = error.__cause__
    if isinstance(cause, ValidationError) and cause.errors()[0]["type"] != "value_error":
        message = f"{max(error.param.opts, key=len)}: {first_mistake(cause)}"
        thousands = re.search(r"expected a whole number, got '(\d+)k'", message, re.IGNORECASE)
        return f"{message}. Write {thousands[1]}000" if thousands else message
    other: str = error.format_message()
    return other.replace("Value error, ", "")


app = typer.Typer(
    name="nmt",
    cls=_Commands,
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


def _add(name: str, command: Callable[..., None], short_help: str) -> None:
    app.command(name, short_help=short_help, cls=GroupedCommand)(with_quiet(command))


_add("prepare-data", prepare_data, "Fetch parallel text, or take your own, and clean it.")
_add("build-vocab", build_vocab, "Train a vocabulary, and encode the text with it.")
_add("train", train, "Train a Transformer, or resume a run.")
_add("average-checkpoints", average_checkpoints, "Average the weights of several checkpoints.")
_add("translate", translate, "Translate lines of text.")
_add("score", score, "Score translations: BLEU, chrF, TER.")
_add("compare", compare, "Show where the translations of two systems differ.")
_add("inspect", inspect, "Show where something comes from, and whether it changed.")
_add("import", import_model, "Import a model of another toolkit.")
_add("export", export_model, "Export a model to another toolkit.")
_add("report", report, "Write a page about training runs.")
_add("attention", attention, "Draw the attention in sentences and their translations.")
_add("doctor", doctor, "Check this machine and measure its speed.")

app.add_typer(bench, name="bench", short_help="Measure speed on this machine.")


def _print_version(wanted: bool) -> None:
    if wanted:
        write_stdout(f"nmt {nmt.__version__}\n")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
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
        flush_stdout()
        raise
