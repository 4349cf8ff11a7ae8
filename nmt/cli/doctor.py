"""``nmt doctor``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nmt.cli.console import notice, warn, write_stdout
from nmt.cli.options import option
from nmt.option_fields import STREAMS


def doctor(
    as_json: Annotated[bool, option("Print JSON.", "--json", group=STREAMS)] = False,
    quick: Annotated[bool, option("Leave out the speed of training and translating.")] = False,
) -> None:
    """Examine this machine: what it is, whether it computes right, how fast it trains and translates.

    Takes some minutes; nothing else should run meanwhile. --quick takes half a minute. Attach the
    output to a bug report: it holds no host name and no text of yours. The exit code is 1 if a check failed.

    Example: nmt doctor
    """
    from nmt.doctor.examination import examine
    from nmt.doctor.findings import tables, warnings

    found = examine(with_speeds=not quick, report=notice)
    if as_json:
        write_stdout(json.dumps(found.values(), indent=2) + "\n")
    else:
        write_stdout("\n".join(f"{table.title}\n\n{table.plain()}\n" for table in tables(found)))
    for line in warnings(found):
        warn(line)
    if not found.passed:
        raise typer.Exit(1)
