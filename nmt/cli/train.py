"""``nmt train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.completion import presets
from nmt.cli.options import Changes, TrainingPrecisionName, option
from nmt.option_fields import HARDWARE, SETTINGS, STREAMS, DeviceChoice


def train(
    data: Annotated[
        list[str] | None,
        option("A prepared data set; several are mixed.  [newest below data/]", metavar="DIR[:WEIGHT]", group=STREAMS),
    ] = None,
    preset: Annotated[
        str | None,
        option(
            "tiny, small, base or big.  [by the size of the corpus]",
            metavar="NAME",
            group=SETTINGS,
            autocompletion=presets,
        ),
    ] = None,
    config: Annotated[
        Path | None, option("YAML with your settings, which override the preset's.", metavar="PATH", group=SETTINGS)
    ] = None,
    set_: Changes = None,
    out: Annotated[
        Path | None,
        option(
            "The run's folder.  [runs/NAME-PRESET, or runs/NAME-STEM of --config]",
            "-o",
            "--out",
            metavar="PATH",
            group=STREAMS,
        ),
    ] = None,
    resume: Annotated[
        Path | None, option("Resume a run with its own settings and data.", metavar="RUN", group=STREAMS)
    ] = None,
    fresh: Annotated[
        bool, option("Start over in the next free folder, such as RUN-2.", "--fresh", group=STREAMS)
    ] = False,
    accept_changes: Annotated[
        bool, option("Resume although settings changed.", "--accept-changes", group=SETTINGS)
    ] = False,
    max_updates: Annotated[
        int | None, option("End after N updates, resumes included.", metavar="N", group=SETTINGS, min=1)
    ] = None,
    max_minutes: Annotated[
        float | None, option("End after about X minutes, not after the preset's updates.", metavar="X", group=SETTINGS)
    ] = None,
    init_from: Annotated[
        Path | None, option("Start from weights and settings of a bundle or run.", metavar="PATH", group=STREAMS)
    ] = None,
    dry_run: Annotated[bool, option("Try the largest batch and print the run's cost.", "--dry-run")] = False,
    show_settings: Annotated[bool, option("Print all settings as YAML (for --config).", "--show-settings")] = False,
    nproc: Annotated[
        int | None, option("Processes on this machine, such as one per GPU.  [1]", metavar="N", group=HARDWARE, min=1)
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
    import signal
    import sys
    from contextlib import nullcontext

    import torch

    from nmt.cli.console import notice, write_stdout
    from nmt.cli.lost_terminal import hanging_up_when_unread
    from nmt.cli.training_view import TrainingView, preflight_lines, summary_lines
    from nmt.config import dump_config, option_layer, setting_layer
    from nmt.data.manifest import newest_data_set, read_manifest
    from nmt.data.mixing import parse_weighted
    from nmt.training.listener import Unheard
    from nmt.training.progress import Ending
    from nmt.training.ranks.exchange import Ranks, is_launched, ranks_of_environment
    from nmt.training.ranks.launch import launch
    from nmt.training.run import check_run, rehearse
    from nmt.training.run import train as train_run
    from nmt.training.start.choose_settings import choose_settings, settings_of_run
    from nmt.training.start.recorded_data import data_to_resume
    from nmt.training.start.setup import settle, summarize

    launches = nproc is not None and nproc > 1 and not is_launched()
    is_main = ranks_of_environment().is_main
    # Only the main rank prints; other ranks, and the process that starts them, would repeat it.
    say = notice if is_main and not launches else lambda message: None
    if resume is not None:
        _refuse_beside_resume({"--preset": preset, "--config": config, "--out": out, "--init-from": init_from}, fresh)
        choice = settings_of_run(resume)
        weighted = data_to_resume(resume, data)
        say(f"data: {', '.join(str(folder) for folder, _ in weighted)} (of the run)")
    elif data is None:
        weighted = [(newest_data_set(), 1.0)]
        say(f"data: {weighted[0][0]} (the newest)")
    else:
        weighted = [parse_weighted(text) for text in data]
    folders = [folder for folder, _ in weighted]
    given = {
        "training.max_updates": max_updates,
        "training.max_minutes": max_minutes,
        "training.device": device,
        "training.precision": precision,
    }
    options = [setting_layer(setting) for setting in set_ or []]
    options += [option_layer(key, value) for key, value in given.items() if value is not None]
    if resume is None:
        manifests = [read_manifest(folder) for folder in folders]
        choice = choose_settings(manifests, preset=preset, config_file=config, init_from=init_from)
    resolved = settle(weighted, choice, options)
    if choice.description is not None:
        say(choice.description)
    run = resume or out or Path("runs") / f"{resolved.data.name}-{choice.name}"
    if is_main and not dry_run and not show_settings and not fresh:
        check_run(run, resolved, folders, accept_changes=accept_changes)
    if launches:
        ranks = nproc or 1
        # A look at a GPU would take memory there for as long as the ranks train.
        if not torch.cuda.is_available() or resolved.training.device == "cpu":
            summarize(folders, resolved, Ranks(0, ranks, 0, ranks))  # so that errors are reported once
        raise typer.Exit(launch(sys.argv[1:], ranks))
    summary = summarize(folders, resolved)
    if show_settings:
        if is_main:
            write_stdout(dump_config(summary.config, described=True))
        if not dry_run:
            return
    if dry_run:
        found = rehearse(folders, run, resolved, init_from=init_from)
        if is_main:
            mark = "# " if show_settings else ""  # a comment below the settings
            lines = [*summary_lines(summary), *preflight_lines(found)]
            write_stdout("".join(f"{mark}{line}\n" for line in lines))
        return

    for line in summary_lines(summary):
        say(line)
    with hanging_up_when_unread():
        # What other ranks would show, the main one shows.
        with TrainingView() if is_main else nullcontext(Unheard()) as view:
            outcome = train_run(
                folders, run, resolved, view, fresh=fresh, accept_changes=accept_changes, init_from=init_from
            )
        update = f"update {outcome.progress.update:,}"
        if outcome.was_over:
            say(f"Nothing to do: {outcome.run} is finished ({update}: {outcome.ending.value}).")
        elif outcome.ending is Ending.INTERRUPTED:
            command = f"`nmt train --resume {outcome.run}`" if fresh else "the same command"
            say(f"Interrupted at {update}. Saved. Run {command} to resume.")
            raise typer.Exit(128 + (outcome.stopped_by or signal.SIGINT))
        else:
            say(f"Finished at {update}: {outcome.ending.value}.")


def _refuse_beside_resume(options: dict[str, object], fresh: bool) -> None:
    from nmt.errors import ConfigError

    given = [name for name, value in options.items() if value is not None] + ["--fresh"] * fresh
    if given:
        raise ConfigError(
            f"{given[0]} does not go with --resume, which takes the run's own settings and folder. Leave it out. --set "
            "changes single settings."
        )
