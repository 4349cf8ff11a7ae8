"""``nmt adapt``."""

from __future__ import annotations

from typing import Any

import typer

from nmt.api import adapting
from nmt.cli.console import notice, warn, write_stdout
from nmt.cli.options import command
from nmt.cli.process import hanging_up_when_unread
from nmt.cli.progress_lines import CONSOLE
from nmt.cli.training_view import TrainingView
from nmt.text.printable import counted

_FEW = 50
"""Fewer sentences than this hardly tell two models apart."""


@command(adapting.adapt)
def adapt(given: dict[str, Any]) -> None:
    """Training takes minutes: it ends when validation on held-out pairs of the memory gets no better. Then BLEU before
    and after is printed, for your text and for general text. Run the same command to resume.

    Example: nmt adapt runs/multi30k-en-de-small memory.tmx --general data/multi30k-en-de
    """
    with hanging_up_when_unread(), TrainingView() as view:
        adapted = adapting.adapt(**given, report=CONSOLE, listener=view)
    if adapted.exit_code:
        notice("Interrupted. Saved. Run the same command to resume.")
        raise typer.Exit(adapted.exit_code)
    write_stdout("".join(f"{line}\n" for line in _verdict(adapted)))
    if adapted.forgets:
        warn(
            f"general text lost more than --max-loss {given['max_loss']:g}. {adapted.run} is for text like the memory "
            "alone; mix in more general text, or train for less time."
        )
        raise typer.Exit(1)
    assert adapted.own is not None  # training was not interrupted
    if adapted.own.sentences < _FEW:
        held_out = counted(adapted.own.sentences, "sentence")
        notice(f"The memory's test set has {held_out}, too few to tell: a larger memory has more to hold out.")
    if not adapted.general:
        notice("What general text lost is not known: name a data set of it with --general.")
    notice(f"written: {adapted.run}")


def _verdict(adapted: adapting.Adapted) -> list[str]:
    """A line for each test set."""
    assert adapted.own is not None  # training was not interrupted
    return [
        f"{name}: BLEU {change.before.value:.1f} before, {change.after.value:.1f} after ({change.difference:+.1f}, "
        f"p = {change.after.p_bootstrap:.3f}; {counted(change.sentences, 'sentence')})"
        for name, change in [("memory", adapted.own), *((change.name, change) for change in adapted.general)]
    ]
