"""``nmt report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from nmt.cli.console import notice
from nmt.cli.options import command
from nmt.option_fields import Argument, Option


@command()
def report(
    runs: Annotated[list[Path] | None, Argument("Folders of runs.", unset="newest below runs/", metavar="RUN")] = None,
    out: Annotated[
        Path | None,
        Option("File to write.", None, unset="RUN/report.html, or ./report.html for several runs", letter="o"),
    ] = None,
) -> None:
    """Write a page about a training run for a browser; for several runs, a comparison.

    Example: nmt report runs/toy-en-de-tiny runs/toy-en-de-tiny-2 --out comparison.html
    """
    from nmt.checkpoint.run_folder import RunFolder, newest_run
    from nmt.reports.run_report import write_run_report

    if not runs:
        runs = [newest_run()]
        notice(f"run: {runs[0]} (the newest)")
    report = RunFolder(runs[0]).report
    out = out or (report if len(runs) == 1 else Path(report.name))
    write_run_report(runs, out)
    notice(f"written: {out}")
