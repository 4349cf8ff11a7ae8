"""``nmt average-checkpoints``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.options import option
from nmt.cli.progress_lines import CONSOLE
from nmt.option_fields import CHECKPOINTS, STREAMS


def average_checkpoints(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="The run's folder.  [newest below runs/]")] = None,
    last: Annotated[int | None, option("Average the last N checkpoints.  [5]", min=1, group=CHECKPOINTS)] = None,
    best: Annotated[
        int | None, option("Average the N best checkpoints by validation score.", min=1, group=CHECKPOINTS)
    ] = None,
    updates: Annotated[
        str | None, option("Average the checkpoints of these updates.", metavar="N,N", group=CHECKPOINTS)
    ] = None,
    out: Annotated[Path | None, option("The bundle to write.  [RUN/average]", "-o", "--out", group=STREAMS)] = None,
    data: Annotated[
        list[str] | None, option("The run's data, to validate.  [where the run found it]", metavar="DIR", group=STREAMS)
    ] = None,
) -> None:
    """Average the weights of several checkpoints of a run, and validate the average.

    `nmt translate` and `nmt export` then use it if it is better than the run's best checkpoint.

    Example: nmt average-checkpoints runs/toy-en-de-tiny --last 5
    """
    given = dict(locals())
    from nmt.api.training import average_checkpoints

    average_checkpoints(**given, report=CONSOLE)
