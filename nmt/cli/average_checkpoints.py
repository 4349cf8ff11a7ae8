"""``nmt average-checkpoints``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import notice
from nmt.cli.options import option
from nmt.errors import ConfigError, NmtError

if TYPE_CHECKING:
    from nmt.checkpoint.bundle import Bundle


def average_checkpoints(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run's folder.  [newest below runs/]")] = None,
    last: Annotated[int | None, option("Average the last N checkpoints.  [5]", min=1)] = None,
    best: Annotated[int | None, option("Average the N best checkpoints by validation score.", min=1)] = None,
    updates: Annotated[str | None, option("Average the checkpoints of these updates.", metavar="N,N")] = None,
    out: Annotated[Path | None, option("The bundle to write.  [RUN/average]", "-o", "--out")] = None,
    data: Annotated[
        list[str] | None, option("The run's data, to validate.  [where the run found it]", metavar="DIR")
    ] = None,
) -> None:
    """Average the weights of several checkpoints of a run, and validate the average.

    `nmt translate` and `nmt export` then use it if it is better than the run's best checkpoint.

    Example: nmt average-checkpoints runs/toy-en-de-tiny --last 5
    """
    from nmt.checkpoint.averaging import average, best_checkpoints, last_checkpoints, named_checkpoints
    from nmt.checkpoint.describing import has_checkpoints, newest_trained_run
    from nmt.checkpoint.run_folder import RunFolder, best_checkpoint, validation_score, why_not_better

    given = [name for name, value in (("--last", last), ("--best", best), ("--updates", updates)) if value is not None]
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)} were both given: give one.")
    if run is None:
        run, remarks = newest_trained_run(usable=has_checkpoints)
        for line in (f"run: {run} (the newest)", *remarks):
            notice(line)
    if updates is not None:
        inputs = named_checkpoints(run, [update.strip() for update in updates.split(",")])
    else:
        inputs = best_checkpoints(run, best) if best is not None else last_checkpoints(run, last or 5)
    wanted, there = best or last or 0, len(inputs)
    if there < wanted:
        kind = "validated checkpoint" if best is not None else "checkpoint"
        notice(f"averaging {there} {kind}{'s' * (there > 1)}: the run has no more, and {wanted} were asked for")

    for folder in inputs:
        notice(f"averaged: {folder}")
    own_place = RunFolder(run).average
    out = out or own_place
    average(inputs, out, validate=partial(_validate, run, data))
    score, best_one = validation_score(out), best_checkpoint(run)
    notice(f"written: {out}" + (f" ({score})" if score is not None else ""))
    if best_one is None or (score is None and out != own_place):
        return
    objection = why_not_better(out, best_one)
    judgement = objection or f"{score} is better than {validation_score(best_one)} of {best_one.name}"
    used = f": `nmt translate --model {run}` uses {best_one.name if objection else out}" if out == own_place else ""
    notice(f"{judgement}{used}")


def _validate(run: Path, data: list[str] | None, mean: Bundle) -> dict[str, float | None] | None:
    """Validate an average on the run's data; None if that is not there or the memory does not suffice."""
    from nmt.machine.device import is_out_of_memory
    from nmt.training.averages import validate_average
    from nmt.training.start.recorded_data import data_to_resume

    try:
        folders = [folder for folder, _ in data_to_resume(run, data)]
        notice(f"validating on {folders[0]}")
        validation = validate_average(mean, folders)
    except (NmtError, RuntimeError, MemoryError) as error:
        is_full = is_out_of_memory(error)
        if (data is not None or not isinstance(error, NmtError)) and not is_full:
            raise
        notice(f"not validated: {'the memory does not suffice' if is_full else error}")
        return None
    return {"loss": validation.loss, "bleu": validation.bleu}
