"""``nmt train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import is_quiet, notice, write_stdout
from nmt.cli.options import Changes, Threads, option, yaml_names
from nmt.cli.process import hanging_up_when_unread
from nmt.cli.training_view import TrainingView, preflight_lines, summary_lines
from nmt.option_fields import FORMAT, HARDWARE, SETTINGS, STREAMS, DeviceChoice, TrainingPrecision

if TYPE_CHECKING:
    from nmt.api.training import Training


def train(
    data: Annotated[
        list[str] | None,
        option("A prepared data set; several are mixed.  [newest below data/]", metavar="DIR[:WEIGHT]", group=STREAMS),
    ] = None,
    preset: Annotated[
        str | None,
        option(
            "tiny, small, base or big.  [by corpus and device]",
            metavar="NAME",
            group=SETTINGS,
            autocompletion=yaml_names("presets"),
        ),
    ] = None,
    config: Annotated[
        Path | None, option("YAML with your settings, which override the preset's.", group=SETTINGS)
    ] = None,
    set: Changes = None,
    out: Annotated[
        Path | None,
        option("The run's folder.  [runs/NAME-PRESET, or runs/NAME-STEM of --config]", "-o", "--out", group=STREAMS),
    ] = None,
    resume: Annotated[
        Path | None, option("Resume a run with its own settings and data.", metavar="RUN", group=STREAMS)
    ] = None,
    fresh: Annotated[bool, option("Start over in the next free folder, such as RUN-2.", group=STREAMS)] = False,
    accept_changes: Annotated[bool, option("Resume although settings changed.", group=SETTINGS)] = False,
    max_updates: Annotated[int | None, option("End after N updates, resumes included.", group=SETTINGS, min=1)] = None,
    max_minutes: Annotated[
        float | None, option("End after about X minutes, not after the preset's updates.", group=SETTINGS)
    ] = None,
    init_from: Annotated[
        Path | None, option("Start from weights and settings of a bundle or run.", group=STREAMS)
    ] = None,
    dry_run: Annotated[bool, option("Try the largest batch and print the run's cost.", group=FORMAT)] = False,
    show_settings: Annotated[bool, option("Print all settings as YAML (for --config).", group=FORMAT)] = False,
    nproc: Annotated[
        int | None, option("Processes on this machine, such as one per GPU.  [1]", group=HARDWARE, min=1)
    ] = None,
    device: Annotated[DeviceChoice | None, option("Where to compute.  [auto]", group=HARDWARE)] = None,
    precision: Annotated[TrainingPrecision | None, option("auto: bf16 where faster.  [auto]", group=HARDWARE)] = None,
    threads: Threads = None,
    seed: Annotated[
        int | None, option("Seed of initial weights, dropout and the order of the data.  [1]", group=SETTINGS, min=0)
    ] = None,
) -> None:
    """Train a Transformer; the same command again resumes the run.

    Ctrl-C or a lost terminal saves a checkpoint first. The run's folder gets checkpoints/, metrics.jsonl and
    config.yaml. With --resume RUN nothing else is needed; limits, the device and --set change the run's settings.

    Example: nmt train --preset small --max-minutes 30
    """
    given = dict(locals())
    from nmt.api.training import train
    from nmt.training.ranks.launch import PrintedError

    with hanging_up_when_unread():
        try:
            with TrainingView(shows_settings=show_settings) as view:
                training = train(**given, quiet=is_quiet(), listener=view)
        except PrintedError as error:
            raise typer.Exit(error.exit_code) from None
        if training.is_main:
            _print(training, show_settings=show_settings, fresh=fresh)
    if training.exit_code:
        raise typer.Exit(training.exit_code)


def _print(training: Training, *, show_settings: bool, fresh: bool) -> None:
    """Print what a dry run measured, or how the run ended."""
    from nmt.training.progress import Ending

    if training.measured is not None and training.summary is not None:
        mark = "# " if show_settings else ""  # a comment below the settings
        lines = (*summary_lines(training.summary), *preflight_lines(training.measured))
        write_stdout("".join(f"{mark}{line}\n" for line in lines))
    if (outcome := training.outcome) is None:
        return
    update = f"update {outcome.progress.update:,}"
    if outcome.was_over:
        notice(f"Nothing to do: {outcome.run} is finished ({update}: {outcome.ending.value}).")
    elif outcome.ending is Ending.INTERRUPTED:
        command = f"`nmt train --resume {outcome.run}`" if fresh else "the same command"
        notice(f"Interrupted at {update}. Saved. Run {command} to resume.")
    else:
        notice(f"Finished at {update}: {outcome.ending.value}.")
