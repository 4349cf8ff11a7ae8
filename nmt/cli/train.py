"""``nmt train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def train(
    data: Annotated[Path | None, typer.Option(help="A prepared data set; the newest below data/ if left out.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, base or big; chosen by the corpus if left out.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings of your own, in place of a preset.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: model.dropout=0.3.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/NAME-PRESET if left out.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew in the next free folder.")] = False,
    accept_changes: Annotated[bool, typer.Option("--accept-changes", help="Resume although settings changed.")] = False,
    max_updates: Annotated[int | None, typer.Option(min=1, help="End after so many updates, resumes included.")] = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0.0, help="End after so many minutes, resumes and validation included.")
    ] = None,
    init_from: Annotated[Path | None, typer.Option(help="Begin with the weights of a bundle.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the settings and what they come to, and end.")
    ] = False,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"] | None, typer.Option(help="Where to compute.  [auto]")
    ] = None,
    precision: Annotated[
        Literal["auto", "fp32", "bf16"] | None, typer.Option(help="auto takes bf16 where the hardware has it.  [auto]")
    ] = None,
) -> None:
    """Train a Transformer; the same command again goes on where it stopped.

    Ctrl-C saves a checkpoint first. The run's folder gets checkpoints/, metrics.jsonl and config.yaml.

    Example: nmt train --preset small --max-minutes 30
    """
    import signal
    import sys

    from nmt.cli.console import notice
    from nmt.cli.training_view import TrainingView, summary_lines, summary_text
    from nmt.data.manifest import newest_data_set
    from nmt.training.setup import resolve_config, run_folder, summarize
    from nmt.training.setup import train as train_run
    from nmt.training.trainer import Ending

    if data is None:
        data = newest_data_set()
        notice(f"data: {data} (the newest)")
    given = {
        "training.max_updates": max_updates,
        "training.max_minutes": max_minutes,
        "training.device": device,
        "training.precision": precision,
    }
    settings = [*(set_ or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]
    resolved, name = resolve_config(data, preset=preset, config_file=config, settings=settings)
    if preset is None and config is None:
        notice(f"preset: {name} (chosen for this corpus; --preset takes another)")
    if dry_run:
        sys.stdout.write(summary_text(summarize(data, resolved)))
        return

    run = out or run_folder(Path("runs"), resolved.data.name, name, fresh=fresh)
    notice(f"run: {run}")
    for line in summary_lines(summarize(data, resolved)):
        notice(line)
    with TrainingView() as view:
        outcome = train_run(data, run, resolved, view, accept_changes=accept_changes, init_from=init_from)
    if outcome.was_over:
        notice(f"Nothing to do: {run} ended before, since {outcome.ending.value} (update {outcome.progress.update:,}).")
        return
    notice(f"Ended at update {outcome.progress.update:,}, since {outcome.ending.value}.")
    if outcome.ending is Ending.INTERRUPTED:
        notice("Saved. The same command goes on from here.")
        raise typer.Exit(128 + (outcome.stopped_by or signal.SIGINT))
