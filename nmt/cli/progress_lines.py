"""What a command shows of a job: messages; progress as bars in a terminal, and as a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from nmt.cli.console import is_terminal, notice, stderr, warn
from nmt.reporting import Reporter, Unit, Update
from nmt.text.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_INTERVAL = 10.0
"""Seconds between two lines about the same task without a terminal."""
_ROOM_FOR_BARS = 72
"""Minimum width of a terminal, in columns, for bars."""


@contextmanager
def progress_display() -> Iterator[Callable[[Unit], Update]]:
    """Show progress while the body runs. Yields a function that takes a unit and returns a callback."""
    bars = _bars() if is_terminal() else None
    try:
        yield partial(_updating, bars)
    finally:
        if bars is not None and bars.tasks:
            bars.stop()


def _bars() -> Progress:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    # Names are text, not markup.
    name, amount = (TextColumn(form, markup=False) for form in ("{task.description}", "{task.fields[amount]}"))
    # On a narrow terminal there is room for numbers alone.
    columns = (amount,) if stderr().width < _ROOM_FOR_BARS else (BarColumn(), amount, TimeRemainingColumn())
    return Progress(name, *columns, console=stderr())


def _updating(bars: Progress | None, unit: Unit) -> Update:
    begun: dict[str, tuple[float, int]] = {}
    printed: dict[str, float] = {}
    tasks: dict[str, TaskID] = {}

    def update(name: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        begin, already = begun.setdefault(name, (now, done))
        rate = (done - already) / (now - begin) if now > begin else 0.0
        if bars is not None:
            bars.start()
            if name not in tasks:
                tasks[name] = bars.add_task(printable(name).replace("\n", " "), total=total, amount="")
            bars.update(tasks[name], completed=done, total=total, amount=_amount(unit, done, total, rate))
        elif now - printed.setdefault(name, now) >= _INTERVAL:
            printed[name] = now
            left = f", {duration((total - done) / rate)} left" if unit == "pairs" and total and rate > 0 else ""
            notice(f"{name}: {_amount(unit, done, total, rate)}{left}")

    return update


def _amount(unit: Unit, done: int, total: int | None, rate: float) -> str:
    """What is done, of how much, and how fast: ``11 of 211 lines, 5 per second``."""
    scale, name, digits = (1e6, "MB", 1) if unit == "bytes" else (1, unit, 0)
    whole = f" of {total / scale:,.{digits}f}" if total else ""
    # A rounded rate of less than one per second says nothing.
    speed = f", {rate / scale:,.{digits}f} per second" if rate >= scale else ""
    return f"{done / scale:,.{digits}f}{whole} {name}{speed}"


def duration(seconds: float) -> str:
    """Seconds as text: 45s, 3m05s, 2h10m, 4d06h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole >= 3 * 86400:
        return f"{whole // 86400}d{whole % 86400 // 3600:02}h"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"


class _Console(Reporter):
    """Shows everything on stderr."""

    names_flags = True

    def notice(self, message: str) -> None:
        notice(message)

    def warn(self, message: str) -> None:
        warn(message)

    def progress(self) -> AbstractContextManager[Callable[[Unit], Update]]:
        return progress_display()


CONSOLE = _Console()
