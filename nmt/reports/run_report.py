"""``nmt report``: the page about one training run or several."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from nmt.reports.pages import Page
from nmt.reports.run_curves import curves
from nmt.reports.run_history import read_runs
from nmt.reports.run_tables import all_settings, data_sets, differing_settings, events, figures, samples

REPORT = Page("nmt report", "report.html")


def run_report(folders: Sequence[Path]) -> str:
    """The page about one or more runs.

    Raises:
        CheckpointError: a folder is not a run.
        ConfigError: a run was given twice, or its settings cannot be read.
    """
    runs = read_runs(folders)
    return REPORT.html(
        f"Training report: {', '.join(run.label for run in runs)}",
        figures=figures(runs),
        charts=curves(runs),
        samples=samples(runs),
        settings=[(run.label, all_settings(run)) for run in runs],
        differing=differing_settings(runs),
        data_sets=data_sets(runs),
        events=events(runs),
    )


def write_run_report(folders: Sequence[Path], out: Path) -> None:
    """Write the page atomically.

    Raises:
        CheckpointError: a folder is not a run.
        ConfigError: a run was given twice, or its settings cannot be read.
        OutputError: ``out`` exists and is not a report.
        WriteError: the file cannot be written.
    """
    REPORT.check(out)
    content = run_report(folders)
    parent = out.parent
    before = parent.stat() if parent.resolve() in [folder.resolve() for folder in folders] else None
    REPORT.write(out, content)
    if before is not None:
        # The most recent run is found by the times of its folder, which a report must not change.
        with contextlib.suppress(OSError):
            os.utime(parent, ns=(before.st_atime_ns, before.st_mtime_ns))
