"""The display of a training run: live in a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from nmt.cli.console import is_terminal, notice, stderr, write_stdout
from nmt.cli.progress_lines import duration
from nmt.text.printable import counted
from nmt.training.listener import Listener

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

    from nmt.config import Config
    from nmt.training.start.summary import Summary
    from nmt.training.start.trial import Preflight


_NARROW, _MEDIUM, _WIDE = 40, 72, 130
"""Minimum widths of a terminal, in columns, for the time left, the bar and the last record."""


class TrainingView(Listener):
    """Shows a run: one line per record, and in a terminal a bar with the time left."""

    def __init__(self, *, shows_settings: bool = False) -> None:
        self._shows_settings = shows_settings
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._max_updates: int | None = None
        self._max_seconds: float | None = None
        self._status = ""
        self._first: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def settled(self, config: Config) -> None:
        """Print the settings, if they were asked for: they are data."""
        from nmt.config import describe_config

        if self._shows_settings:
            write_stdout(describe_config(config))

    def summarized(self, summary: Summary) -> None:
        """Show the facts about the run."""
        for line in summary_lines(summary):
            notice(line)

    def measured(self, found: Preflight) -> None:
        """Show the estimates of time and memory."""
        for line in preflight_lines(found):
            notice(line)

    def started(self, update: int, max_updates: int | None, max_minutes: float | None) -> None:
        """Show the bar of a run with a known end."""
        self._max_updates = max_updates
        self._max_seconds = None if max_minutes is None else max_minutes * 60
        if self._bar is None and is_terminal():
            from rich.progress import Progress

            self._bar = Progress(*progress_columns(stderr().width), console=stderr(), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(f"{update:,}", total=1.0, left="", status="")

    def progressed(self, update: int, seconds: float) -> None:
        """Move the bar."""
        if self._first is None:
            self._first = (update, seconds)
        if self._bar is None or self._task is None:
            return
        done, left = self._share_done(update, seconds)
        self._bar.columns = progress_columns(stderr().width)  # the terminal may have been resized
        self._bar.update(self._task, description=f"{update:,}", completed=done, left=left, status=self._status)

    def _share_done(self, update: int, seconds: float) -> tuple[float, str]:
        """The share of the run that is done and the time left, by the limit that comes first."""
        assert self._first is not None
        shares = [0.0]
        seconds_left = []
        first_update, first_seconds = self._first
        if self._max_updates:
            shares.append(update / self._max_updates)
            if update > first_update:
                pace = (seconds - first_seconds) / (update - first_update)
                seconds_left.append(pace * (self._max_updates - update))
        if self._max_seconds:
            shares.append(seconds / self._max_seconds)
            seconds_left.append(self._max_seconds - seconds)
        left = f"{duration(min(seconds_left))} left at most" if seconds_left else ""
        return min(max(shares), 1.0), left

    def recorded(self, record: dict[str, Any]) -> None:
        """Show a record as a line."""
        if record["kind"] == "update":
            loss = "every update was skipped"
            if record["loss"] is not None:
                loss = f"loss {record['loss']:.3f}  ppl {record['perplexity']:.2f}"
            self._status = (
                f"{loss}  lr {record['learning_rate']:.2e}  {record['target_tokens_per_second']:,.0f} tokens/s"
            )
            notice(
                f"update {record['update']:>7,}  epoch {record['epoch'] + 1}  {self._status}  "
                f"{duration(record['seconds'])}"
            )
        elif record["kind"] == "validation":
            score = "" if record["valid_bleu"] is None else f"  BLEU {record['valid_bleu']:.2f}"
            score += _by_direction(record)
            notice(
                f"update {record['update']:>7,}  validation: loss {record['valid_loss']:.3f}  "
                f"ppl {record['valid_perplexity']:.2f}{score}  ({record['validation_seconds']:.1f} s)"
            )

    def noticed(self, message: str) -> None:
        """Show a message."""
        notice(message)


def _by_direction(record: Mapping[str, Any]) -> str:
    """The score of each direction, or its loss where BLEU is not measured; nothing where there is one direction."""
    found = [
        f"{direction} {scores['loss']:.3f}" if scores["bleu"] is None else f"{direction} {scores['bleu']:.2f}"
        for direction, scores in record.get("directions", {}).items()
    ]
    return f" ({', '.join(found)})" if found else ""


def progress_columns(width: int) -> tuple[ProgressColumn, ...]:
    """The columns that fit on one line of a terminal; a longer line would be cut."""
    from rich.progress import BarColumn, TextColumn

    where = TextColumn("update {task.description}", markup=False)
    if width < _NARROW:
        return where, TextColumn("{task.percentage:.0f}%", markup=False)
    share = TextColumn("{task.percentage:>3.0f}% {task.fields[left]}", markup=False)
    if width < _MEDIUM:
        return where, share
    if width < _WIDE:
        return where, BarColumn(bar_width=24), share
    return where, BarColumn(bar_width=24), share, TextColumn("{task.fields[status]}", markup=False)


def summary_lines(summary: Summary) -> list[str]:
    """The facts about a run before it begins."""
    from nmt.convert.expressible import exports_line

    total = sum(summary.parameters.values())
    return [
        f"hardware: {summary.hardware} ({summary.hardware.reason})"
        + (f", {summary.ranks} ranks" if summary.ranks > 1 else ""),
        *(
            ["fp16 is meant for GPUs: on a CPU, --precision fp32 or auto is faster"]
            if (summary.hardware.device.type, summary.hardware.precision) == ("cpu", "fp16")
            else []
        ),
        *(
            [f"idle: {counted(summary.idle_gpus, 'GPU')}; --nproc uses as many as you say"]
            if summary.idle_gpus > 0
            else []
        ),
        f"parameters: {total:,}" + (f" ({summary.frozen:,} frozen)" if summary.frozen else ""),
        *(f"  {part}: {count:,}" for part, count in summary.parameters.items() if count),
        *_mixture_lines(summary),
        f"training pairs per epoch: {summary.pairs:,}",
        f"updates per epoch: {summary.updates_per_epoch:,}",
        f"peak learning rate: {summary.peak_learning_rate:.3e} at update {summary.peak_update:,}",
        exports_line(summary.config.model),
    ]


def _mixture_lines(summary: Summary) -> list[str]:
    parts = summary.config.data.parts
    return [f"data: {part.name}, weight {part.weight:g}" for part in parts] if len(parts) > 1 else []


def preflight_lines(found: Preflight) -> list[str]:
    """The measurements of the worst micro-batch."""
    from rich.filesize import decimal

    usable = f" of {decimal(found.memory_for_use)}" if found.memory_for_use is not None else ""
    lines = [
        f"worst micro-batch: {found.worst_positions:,} pieces per side, {decimal(found.memory_bytes)}{usable}",
        f"checkpoints: {decimal(found.checkpoint_bytes)} each, {decimal(found.checkpoints_bytes)} in all; "
        f"{decimal(found.disk_free)} free",
    ]
    if found.disk_warning is not None:
        lines.append(f"warning: {found.disk_warning}")
    lines.append(f"speed: {found.target_tokens_per_second:,.0f} target tokens/s")
    if found.within_warm_up is not None:
        lines.append(f"warning: {found.within_warm_up}")
    if found.not_compiled is not None:
        lines.append(f"warning: {found.not_compiled}")
    elif found.compiles:
        lines.append("compiled: model and loss, as one graph")
    if found.seconds_left is not None:
        validation = "including" if found.ends_by_minutes else "excluding"
        lines.append(f"time to finish: about {duration(found.seconds_left)}, {validation} validation")
    return lines
