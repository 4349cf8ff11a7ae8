"""``nmt doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nmt.cli.console import notice, warn, write_stdout
from nmt.cli.options import option
from nmt.errors import ConfigError
from nmt.option_fields import STREAMS
from nmt.table import Table


def doctor(
    out: Annotated[
        Path | None,
        option("The page to write; its JSON goes beside it.  [nmt-doctor.html]", "-o", "--out", group=STREAMS),
    ] = None,
    as_json: Annotated[bool, option("Print JSON instead of writing files.", "--json", group=STREAMS)] = False,
    quick: Annotated[bool, option("Leave out the speed of training and translating.")] = False,
) -> None:
    """Examine this machine: what it is, whether it computes right, how fast it trains and translates.

    Takes at most three minutes; nothing else should run meanwhile. --quick takes half a
    minute. Attach the page or the JSON to a bug report: they hold no host name and no text of yours. The exit code is
    1 if a check failed.

    Example: nmt doctor
    """
    from nmt.doctor.examination import examine
    from nmt.doctor.findings import summary, warnings
    from nmt.doctor.page import check_paths, examination_json, json_path, write_examination

    if as_json and out is not None:
        raise ConfigError(f"--json prints, and --out {out} writes: give one.")
    page = out or Path("nmt-doctor.html")
    if not as_json:
        check_paths(page)
    found = examine(with_speeds=not quick, report=notice)
    if as_json:
        write_stdout(examination_json(found))
    else:
        # First, so that minutes of measuring are not lost if the files cannot be written.
        write_stdout(Table("", [], [list(line) for line in summary(found)], numbers=()).plain() + "\n")
        write_examination(found, page)
        notice(f"written: {page}, {json_path(page)}")
    for line in warnings(found):
        warn(line)
    if not found.passed:
        raise typer.Exit(1)
