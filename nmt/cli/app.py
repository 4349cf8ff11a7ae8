"""The ``nmt`` command: its subcommands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
import typer.core

import nmt
from nmt.cli.average_checkpoints import average_checkpoints
from nmt.cli.bench import bench
from nmt.cli.build_vocab import build_vocab
from nmt.cli.prepare_data import prepare_data
from nmt.cli.report import report
from nmt.cli.score import score
from nmt.cli.train import train
from nmt.cli.translate import translate
from nmt.errors import NmtError


class _Commands(typer.core.TyperGroup):
    """Turns what a command raises into a message and an exit code: 2 for a user's mistake, 130 for Ctrl-C."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except NmtError as error:
            if os.environ.get("NMT_DEBUG"):
                raise
            _print_error(str(error))
            sys.exit(2)
        except BrokenPipeError:
            # Whoever read our output has gone, which is no error; the interpreter's own flush at exit must not
            # complain about it either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            # A file that cannot be read or written is the user's to mend; what has no name is a fault of ours.
            if os.environ.get("NMT_DEBUG") or error.filename is None:
                raise
            _print_error(f"{error.filename}: {error.strerror}.")
            sys.exit(2)
        except KeyboardInterrupt:
            sys.exit(130)
        return result


app = typer.Typer(
    name="nmt",
    cls=_Commands,
    help="Neural machine translation, from raw parallel text to a scored translator.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("prepare-data", short_help="Fetch parallel text, or take your own, and clean it.")(prepare_data)
app.command("build-vocab", short_help="Train a vocabulary, and encode the text with it.")(build_vocab)
app.command("train", short_help="Train a Transformer, or go on training it.")(train)
app.command("average-checkpoints", short_help="Average the weights of several checkpoints.")(average_checkpoints)
app.command("translate", short_help="Translate lines of text.")(translate)
app.command("score", short_help="Score translations: BLEU, chrF, TER.")(score)
app.command("report", short_help="Write a page about training runs.")(report)

app.add_typer(bench, name="bench", short_help="Measure speed on this machine.")


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"nmt {nmt.__version__}\n")
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
    app()


def _print_error(message: str) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (message, "red")))
