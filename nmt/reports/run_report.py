"""The page about a training run, or about several side by side: ``nmt report``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import nmt
from nmt.files import replacing
from nmt.ownership import Kind, check_replaceable
from nmt.reports.html import element, page, section, text
from nmt.reports.run_curves import curves
from nmt.reports.run_history import read_runs
from nmt.reports.run_tables import data_sets, events, figures, samples, settings

_TITLE = "Training report: "
_FOOTER = "Written by nmt "


def _is_report(path: Path) -> bool:
    with path.open("rb") as stream:
        begins_so = f"<title>{_TITLE}".encode() in stream.read(1_000)
        return begins_so and f"<footer>{_FOOTER}".encode() in stream.read()


REPORT = Kind("a report", _is_report)


def run_report(folders: Sequence[Path]) -> str:
    """The page about one or more runs.

    Raises:
        CheckpointError: a folder is no run.
        ConfigError: a run was named twice, or its settings cannot be read.
    """
    runs = read_runs(folders)
    title = f"{_TITLE}{', '.join(run.label for run in runs)}"
    return page(
        title,
        element("h1", text(title)),
        figures(runs),
        section("Curves", curves(runs)),
        section("Sample translations", samples(runs)),
        section("Settings", settings(runs)),
        section("Data", data_sets(runs)),
        section("Events", events(runs)),
        element("footer", text(f"{_FOOTER}{nmt.__version__}.")),
        styles=["charts.css"],
        scripts=["charts.js"],
    )


def write_run_report(folders: Sequence[Path], out: Path) -> None:
    """Write the page, whole or not at all.

    Raises:
        CheckpointError: a folder is no run.
        ConfigError: a run was named twice, or its settings cannot be read.
        OutputError: what stands at ``out`` is no report.
        WriteError: the file cannot be written.
    """
    check_replaceable(out, REPORT)
    content = run_report(folders).encode("utf-8", errors="replace")
    parent = out.parent
    before = parent.stat() if parent.resolve() in [folder.resolve() for folder in folders] else None
    with replacing(out) as stream:
        stream.write(content)
    if before is not None:
        # The run that was at work last is found by the times of its files: to be looked at is no work.
        with contextlib.suppress(OSError):
            os.utime(parent, ns=(before.st_atime_ns, before.st_mtime_ns))
