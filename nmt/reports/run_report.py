"""``nmt report``: the page about one training run or several."""

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
        has_title = f"<title>{_TITLE}".encode() in stream.read(1_000)
        return has_title and f"<footer>{_FOOTER}".encode() in stream.read()


REPORT = Kind("a report", _is_report)


def run_report(folders: Sequence[Path]) -> str:
    """The page about one or more runs.

    Raises:
        CheckpointError: a folder is not a run.
        ConfigError: a run was given twice, or its settings cannot be read.
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
    """Write the page atomically.

    Raises:
        CheckpointError: a folder is not a run.
        ConfigError: a run was given twice, or its settings cannot be read.
        OutputError: ``out`` exists and is not a report.
        WriteError: the file cannot be written.
    """
    check_replaceable(out, REPORT)
    content = run_report(folders).encode("utf-8", errors="replace")
    parent = out.parent
    before = parent.stat() if parent.resolve() in [folder.resolve() for folder in folders] else None
    with replacing(out) as stream:
        stream.write(content)
    if before is not None:
        # The most recent run is found by the times of its folder, which a report must not change.
        with contextlib.suppress(OSError):
            os.utime(parent, ns=(before.st_atime_ns, before.st_mtime_ns))
