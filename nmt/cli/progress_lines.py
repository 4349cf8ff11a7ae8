"""How far something has come: bars in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from nmt.cli.console import description, description_column, is_terminal, notice, stderr

Unit = Literal["bytes", "pairs", "lines", "paragraphs"]

# Seconds between two lines about the same thing where nobody watches a terminal.
_INTERVAL = 10.0
# Columns of a terminal below which numbers alone are shown.
_ROOM_FOR_BARS = 72


@contextmanager
def progress_display() -> Iterator[Callable[[Unit], Callable[[str, int, int | None], None]]]:
    """Show progress while the body runs.

    Serves a function that takes a unit and gives a callback ``(description, done, total or None)`` to hand on.
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

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed and task.speed >= 1 else "")

    by_unit: dict[Unit, tuple[ProgressColumn, ...]] = {
        "bytes": (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()),
        "pairs": (MofNCompleteColumn(), Rate(), TimeRemainingColumn()),
        "lines": (MofNCompleteColumn(), Rate(), TimeRemainingColumn()),
        "paragraphs": (MofNCompleteColumn(), Rate()),
    }
    # Counts are worth more than a bar where there is no room for both.
    is_narrow = stderr().width < _ROOM_FOR_BARS
    open_displays: list[Progress] = []

    def display(unit: Unit) -> Callable[[str, int, int | None], None]:
        tasks: dict[str, int] = {}
        columns = by_unit[unit][:2] if is_narrow else (BarColumn(), *by_unit[unit])
        bars = Progress(description_column(), *columns, console=stderr())

        def update(name: str, done: int, total: int | None) -> None:
            if bars not in open_displays:
                # One live display at a time: what came before is finished.
                while open_displays:
                    open_displays.pop().stop()
                bars.start()
                open_displays.append(bars)
            if name not in tasks:
                tasks[name] = int(bars.add_task(description(name), total=total))
            bars.update(tasks[name], completed=done, total=total)  # type: ignore[arg-type]

        return update

    try:
        yield display
    finally:
        for bars in open_displays:
            bars.stop()


def _lines(unit: Unit) -> Callable[[str, int, int | None], None]:
    told: dict[str, float] = {}
    begun: dict[str, tuple[float, int]] = {}
    scale, name = (1_000_000, "MB") if unit == "bytes" else (1, unit)

    def update(description: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        told.setdefault(description, now)
        begin, already = begun.setdefault(description, (now, done))
        if now - told[description] < _INTERVAL:
            return
        told[description] = now
        whole = f" of {total / scale:,.0f}" if total else ""
        rate = (done - already) / (now - begin)
        # Of less than one per second a rounded figure says nothing.
        speed = f", {rate:,.0f} per second" if unit != "bytes" and rate >= 1 else ""
        left = f", {duration((total - done) / rate)} left" if unit == "pairs" and total and rate > 0 else ""
        notice(f"{description}: {done / scale:,.0f}{whole} {name}{speed}{left}")

    return update


def duration(seconds: float) -> str:
    """Seconds as people read them: 45s, 3m05s, 2h10m, 4d06h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole >= 3 * 86400:
        return f"{whole // 86400}d{whole % 86400 // 3600:02}h"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
