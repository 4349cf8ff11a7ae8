"""``nmt average-checkpoints``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def average_checkpoints(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run's folder.  [newest below runs/]")] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Average the last N checkpoints.  [5]")] = None,
    best: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Average the N best checkpoints by validation score.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="PATH", help="The bundle to write.  [RUN/average]")
    ] = None,
) -> None:
    """Average the weights of several checkpoints of a run.

    Example: nmt average-checkpoints runs/toy-en-de-tiny --last 5
    """
    from nmt.checkpoint.averaging import average, best_checkpoints, last_checkpoints
    from nmt.checkpoint.describing import has_checkpoints, newest_trained_run
    from nmt.checkpoint.run_folder import RunFolder
    from nmt.cli.console import notice
    from nmt.errors import ConfigError

    if last is not None and best is not None:
        raise ConfigError("--last and --best were both given: give one.")
    if run is None:
        run, remarks = newest_trained_run(usable=has_checkpoints)
        for line in (f"run: {run} (the newest)", *remarks):
            notice(line)
    inputs = best_checkpoints(run, best) if best is not None else last_checkpoints(run, last or 5)
    wanted = best if best is not None else last
    if wanted is not None and len(inputs) < wanted:
        notice(f"averaging {len(inputs)} checkpoints: the run does not have {wanted}")
    out = out or RunFolder(run).average
    average(inputs, out)
    for folder in inputs:
        notice(f"averaged: {folder}")
    notice(f"written: {out}")
