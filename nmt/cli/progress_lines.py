"""Progress: bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from nmt.cli.console import description, description_column, is_terminal, notice, stderr

if TYPE_CHECKING:
    from rich.progress import TaskID

Unit = Literal["bytes", "pairs", "lines", "paragraphs"]

_INTERVAL = 10.0
"""Seconds between two lines about the same task without a terminal."""
_ROOM_FOR_BARS = 72
"""Minimum width of a terminal, in columns, for bars."""


@contextmanager
def progress_display() -> Iterator[Callable[[Unit], Callable[[str, int, int | None], None]]]:
    """Show progress while the body runs.

    Yields a function that takes a unit and returns a callback ``(description, done, total or None)``.
    """
    if is_terminal():
        with _bars() as display:
            yield display
    else:
        yield _lines


@contextmanager
def _bars() -> Iterator[Callable[[Unit], Callable[[str, int, int | None], None]]]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    of_bytes, of_counts, bytes_per_second = DownloadColumn(), MofNCompleteColumn(), TransferSpeedColumn()

    class Amount(ProgressColumn):
        def render(self, task: Task) -> Text:
            return (of_bytes if task.fields["unit"] == "bytes" else of_counts).render(task)

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            if task.fields["unit"] == "bytes":
                return bytes_per_second.render(task)
            return Text(f"{task.speed:,.0f}/s" if task.speed and task.speed >= 1 else "")

    # On a narrow terminal there is room for numbers alone.
    is_narrow = stderr().width < _ROOM_FOR_BARS
    columns = (Amount(), Rate()) if is_narrow else (BarColumn(), Amount(), Rate(), TimeRemainingColumn())
    bars = Progress(description_column(), *columns, console=stderr())
    tasks: dict[tuple[Unit, str], TaskID] = {}

    def display(unit: Unit) -> Callable[[str, int, int | None], None]:
        def update(name: str, done: int, total: int | None) -> None:
            bars.start()
            if (unit, name) not in tasks:
                tasks[unit, name] = bars.add_task(description(name), total=total, unit=unit)
            bars.update(tasks[unit, name], completed=done, total=total)

        return update

    try:
        yield display
    finally:
        if tasks:
            bars.stop()


def _lines(unit: Unit) -> Callable[[str, int, int | None], None]:
    printed: dict[str, float] = {}
    begun: dict[str, tuple[float, int]] = {}
    scale, name = (1_000_000, "MB") if unit == "bytes" else (1, unit)

    def update(description: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        begin, already = begun.setdefault(description, (now, done))
        if now - printed.setdefault(description, now) < _INTERVAL:
            return
        printed[description] = now
        whole = f" of {total / scale:,.0f}" if total else ""
        rate = (done - already) / (now - begin)
        # A rounded rate of less than one per second says nothing.
        speed = f", {rate:,.0f} per second" if unit != "bytes" and rate >= 1 else ""
        left = f", {duration((total - done) / rate)} left" if unit == "pairs" and total and rate > 0 else ""
        notice(f"{description}: {done / scale:,.0f}{whole} {name}{speed}{left}")

    return update


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
