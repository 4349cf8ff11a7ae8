"""``nmt doctor``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from nmt.cli.console import notice, warn, write_stdout
from nmt.cli.options import JSON, command


@command()
def doctor(as_json: Annotated[bool, JSON] = False) -> None:
    """Examine this machine: what it is, whether it computes right, and how fast.

    Takes half a minute; nothing else should run meanwhile. Attach the output to a bug report: it holds no
    host name and no text of yours. The exit code is 1 if a check failed.

    Example: nmt doctor
    """
    from dataclasses import asdict

    from nmt.doctor.examination import examine

    found = examine(report=notice)
    if as_json:
        write_stdout(json.dumps(asdict(found), indent=2) + "\n")
    else:
        write_stdout("\n".join(f"{table.title}\n\n{table.plain()}\n" for table in found.tables()))
    for check in found.failed:
        warn(f"the check of {check.name} failed: {check.detail}")
    if found.failed:
        raise typer.Exit(1)
