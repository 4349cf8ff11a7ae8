"""``nmt inspect``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import notice, warn, write_stdout
from nmt.cli.options import command
from nmt.errors import ConfigError
from nmt.option_fields import Argument, Option
from nmt.text.printable import printable

if TYPE_CHECKING:
    from nmt.lineage.comparing import Lineage


@command()
def inspect(
    path: Annotated[Path, Argument("Score's JSON, translation, run, bundle, exported model or data.", metavar="PATH")],
    as_json: Annotated[bool, Option("Print JSON.", None, word="json")] = False,
    out: Annotated[Path | None, Option("Write a page instead of printing.", None, letter="o")] = None,
) -> None:
    """Show what something is and where it comes from, back to the archives and their licences.

    Checks the whole lineage. If something changed since, it prints what, and exits with 1.

    Example: nmt inspect runs/toy-en-de-tiny
    """
    from nmt.lineage.reading import read_lineage
    from nmt.reports.lineage_page import LINEAGE, write_lineage

    if out is not None and as_json:
        raise ConfigError(f"--json prints, and --out {out} writes: give one.")
    if out is not None:
        LINEAGE.check(out)
    lineage = read_lineage(path)
    if out is not None:
        write_lineage(lineage, out)
        notice(f"written: {out}")
    elif as_json:
        write_stdout(json.dumps(lineage.values(), indent=2, ensure_ascii=False) + "\n")
    else:
        write_stdout(_as_text(lineage))
    for change in lineage.changes:
        warn(change)
    if lineage.changes:
        raise typer.Exit(1)


def _as_text(lineage: Lineage) -> str:
    return "".join(f"{printable(line.replace(chr(10), ' '))}\n" for line in _lines(lineage, ""))


def _lines(lineage: Lineage, indent: str) -> Iterator[str]:
    states = {"unchanged": "unchanged", "changed": "CHANGED", "not here": "not here", "not checked": ""}
    state = f"not checked: {lineage.why_not_checked}" if lineage.why_not_checked else states[lineage.state]
    yield f"{indent}{lineage.kind}: {lineage.name}{f'  [{state}]' if state else ''}"
    inner = f"{indent}    "
    for label, text in lineage.facts_in_words.items():
        yield f"{inner}{label}: {text}"
    for part in lineage.made_from:
        yield from _lines(part, inner)
