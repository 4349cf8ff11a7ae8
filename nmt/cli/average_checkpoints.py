"""``nmt average-checkpoints``."""

from __future__ import annotations

from typing import Any

from nmt.api import training
from nmt.cli.options import command
from nmt.cli.progress_lines import CONSOLE


@command(training.average_checkpoints)
def average_checkpoints(given: dict[str, Any]) -> None:
    """`nmt translate` and `nmt export` then use it if it is better than the run's best checkpoint.

    Example: nmt average-checkpoints runs/toy-en-de-tiny --last 5
    """
    training.average_checkpoints(**given, report=CONSOLE)
