"""``nmt train``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nmt.cli.console import notice, write_stdout
from nmt.cli.options import Changes, TrainingPrecisionName, option, yaml_names
from nmt.cli.process import hanging_up_when_unread
from nmt.cli.training_view import TrainingView, preflight_lines, summary_lines
from nmt.errors import ConfigError
from nmt.option_fields import HARDWARE, SETTINGS, STREAMS, DeviceChoice

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.training.start.choose_settings import Choice
    from nmt.training.start.setup import Summary

Say = Callable[[str], None]


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
    set_: Changes = None,
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
    dry_run: Annotated[bool, option("Try the largest batch and print the run's cost.")] = False,
    show_settings: Annotated[bool, option("Print all settings as YAML (for --config).")] = False,
    nproc: Annotated[
        int | None, option("Processes on this machine, such as one per GPU.  [1]", group=HARDWARE, min=1)
    ] = None,
    device: Annotated[DeviceChoice | None, option("Where to compute.  [auto]", group=HARDWARE)] = None,
    precision: Annotated[
        TrainingPrecisionName | None, option("auto: bf16 where faster.  [auto]", group=HARDWARE)
    ] = None,
) -> None:
    """Train a Transformer; the same command again resumes the run.

    Ctrl-C or a lost terminal saves a checkpoint first. The run's folder gets checkpoints/, metrics.jsonl and
    config.yaml. With --resume RUN nothing else is needed; limits, the device and --set change the run's settings.

    Example: nmt train --preset small --max-minutes 30
    """
    from nmt.config import describe_config, option_layer, setting_layer
    from nmt.training.ranks.exchange import is_launched, ranks_of_environment
    from nmt.training.run import check_run, rehearse
    from nmt.training.start.choose_settings import settings_of_run
    from nmt.training.start.recorded_data import data_to_resume
    from nmt.training.start.setup import settle, summarize

    only_shows = show_settings and not dry_run
    launches = nproc is not None and nproc > 1 and not is_launched() and not only_shows
    is_main = ranks_of_environment().is_main
    # Only the main rank prints; other ranks, and the process that starts them, would repeat it.
    say = notice if is_main and not launches else lambda message: None
    if resume is not None:
        own = {"--preset": preset, "--config": config, "--out": out, "--init-from": init_from, "--fresh": fresh or None}
        for name in (name for name, value in own.items() if value is not None):
            raise ConfigError(
                f"{name} does not go with --resume, which takes the run's own settings and folder. Leave it out. --set "
                "changes single settings."
            )
        weighted: list[tuple[Path, float]] = []
        choice = settings_of_run(resume)
        if not only_shows:
            weighted = data_to_resume(resume, data)
            say(f"data: {', '.join(str(folder) for folder, _ in weighted)} (of the run)")
    else:
        weighted, choice = _chosen(data, preset, config, init_from, say, needs_data=not only_shows)
    given = {"max_updates": max_updates, "max_minutes": max_minutes, "device": device, "precision": precision}
    layers = [setting_layer(setting) for setting in set_ or []]
    layers += [option_layer(f"training.{key}", value) for key, value in given.items() if value is not None]
    # Settings are shown also before a data set has a vocabulary.
    resolved = settle([] if only_shows else weighted, choice, layers)
    folders = [folder for folder, _ in weighted]
    if choice.description is not None:
        say(choice.description)
    if show_settings and is_main and not launches:
        write_stdout(describe_config(resolved))
    if only_shows:
        return
    run = resume or out or Path("runs") / f"{'+'.join(part.name for part in resolved.data.parts)}-{choice.name}"
    how: dict[str, Any] = {"fresh": fresh, "accept_changes": accept_changes, "init_from": init_from}
    if is_main and not dry_run:
        check_run(run, resolved, folders, **how)
    if launches:
        raise typer.Exit(_launch(folders, resolved, nproc or 1))
    summary = summarize(folders, resolved)
    if dry_run:
        found = rehearse(folders, run, resolved, init_from=init_from)
        mark = "# " if show_settings else ""  # a comment below the settings
        if is_main:
            write_stdout("".join(f"{mark}{line}\n" for line in (*summary_lines(summary), *preflight_lines(found))))
    else:
        _train(folders, run, resolved, summary, say if is_main else None, how)


def _chosen(
    data: list[str] | None,
    preset: str | None,
    config: Path | None,
    init_from: Path | None,
    say: Say,
    *,
    needs_data: bool,
) -> tuple[list[tuple[Path, float]], Choice]:
    """The data and the settings that are named, or chosen. Unless data is needed, there may be none."""
    from nmt.data.manifest import data_sets_below, newest_data_set, read_manifest
    from nmt.data.mixing import parse_weighted
    from nmt.training.start.choose_settings import choose_settings

    weighted = [parse_weighted(text) for text in data or []]
    if data is None and (needs_data or data_sets_below()):
        weighted = [(newest_data_set(), 1.0)]
        say(f"data: {weighted[0][0]} (the newest)")
    manifests = [read_manifest(folder) for folder, _ in weighted]
    return weighted, choose_settings(manifests, preset=preset, config_file=config, init_from=init_from)


def _launch(folders: list[Path], resolved: Config, ranks: int) -> int:
    """Start the processes of a run, and return their exit code."""
    import torch

    from nmt.training.ranks.exchange import Ranks
    from nmt.training.ranks.launch import launch
    from nmt.training.start.setup import summarize

    # A look at a GPU would take memory there for as long as the ranks train.
    if not torch.cuda.is_available() or resolved.training.device == "cpu":
        summarize(folders, resolved, Ranks(0, ranks, 0, ranks))  # so that errors are reported once
    return launch(sys.argv[1:], ranks)


def _train(
    folders: list[Path], run: Path, resolved: Config, summary: Summary, say: Say | None, how: dict[str, Any]
) -> None:
    """Train, and say how the run ended.

    Args:
        say: prints a line; None on ranks that are not the main one, which shows what others would.
        how: further arguments of :func:`nmt.training.run.train`.
    """
    from nmt.training.listener import Unheard
    from nmt.training.progress import Ending
    from nmt.training.run import train as train_run

    tell = say or (lambda message: None)
    for line in summary_lines(summary):
        tell(line)
    with hanging_up_when_unread():
        with TrainingView() if say else nullcontext(Unheard()) as view:
            outcome = train_run(folders, run, resolved, view, **how)
        update = f"update {outcome.progress.update:,}"
        if outcome.was_over:
            tell(f"Nothing to do: {outcome.run} is finished ({update}: {outcome.ending.value}).")
        elif outcome.ending is Ending.INTERRUPTED:
            command = f"`nmt train --resume {outcome.run}`" if how["fresh"] else "the same command"
            tell(f"Interrupted at {update}. Saved. Run {command} to resume.")
            raise typer.Exit(128 + (outcome.stopped_by or signal.SIGINT))
        else:
            tell(f"Finished at {update}: {outcome.ending.value}.")
