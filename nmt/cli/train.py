"""``nmt train``."""

from __future__ import annotations

from typing import Any

import typer

from nmt.api import training
from nmt.cli.console import is_quiet, notice, write_stdout
from nmt.cli.options import command
from nmt.cli.process import hanging_up_when_unread
from nmt.cli.training_view import TrainingView, preflight_lines, summary_lines


@command(training.train)
def train(given: dict[str, Any]) -> None:
    """The same command again resumes the run. Ctrl-C or a lost terminal saves a checkpoint first. The run's folder gets
    checkpoints/, metrics.jsonl and config.yaml. With --resume RUN nothing else is needed; limits, the device and --set
    change the run's settings.

    Example: nmt train --preset small --max-minutes 30
    """
    from nmt.training.ranks.launch import PrintedError

    shows_settings, fresh = given["show_settings"], given["fresh"]
    with hanging_up_when_unread():
        try:
            with TrainingView(shows_settings=shows_settings) as view:
                trained = training.train(**given, quiet=is_quiet(), listener=view)
        except PrintedError as error:
            raise typer.Exit(error.exit_code) from None
        if trained.is_main:
            _print(trained, shows_settings=shows_settings, fresh=fresh)
    if trained.exit_code:
        raise typer.Exit(trained.exit_code)


def _print(trained: training.Training, *, shows_settings: bool, fresh: bool) -> None:
    """Print what a dry run measured, or how the run ended."""
    from nmt.training.progress import Ending

    if trained.measured is not None and trained.summary is not None:
        mark = "# " if shows_settings else ""  # a comment below the settings
        lines = (*summary_lines(trained.summary), *preflight_lines(trained.measured))
        write_stdout("".join(f"{mark}{line}\n" for line in lines))
    if (outcome := trained.outcome) is None:
        return
    update = f"update {outcome.progress.update:,}"
    if outcome.was_over:
        notice(f"Nothing to do: {outcome.run} is finished ({update}: {outcome.ending.value}).")
    elif outcome.ending is Ending.INTERRUPTED:
        command = f"`nmt train --resume {outcome.run}`" if fresh else "the same command"
        notice(f"Interrupted at {update}. Saved. Run {command} to resume.")
    else:
        notice(f"Finished at {update}: {outcome.ending.value}.")
