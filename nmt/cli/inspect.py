"""``nmt inspect``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nmt.cli.console import notice, warn, write_stdout
from nmt.errors import ConfigError
from nmt.text.printable import printable

if TYPE_CHECKING:
    from nmt.lineage.link import Link


def inspect(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="Score's JSON, translation, run, bundle, exported model or data.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page for a browser instead.")] = None,
) -> None:
    """Show what something is and where it comes from, back to the archives and their licences.

    The whole chain is checked: what changed since is named, and the exit code is 1.

    Example: nmt inspect runs/toy-en-de-tiny
    """
    from nmt.lineage.chain import chain
    from nmt.reports.lineage_page import LINEAGE, write_lineage

    if html is not None and as_json:
        raise ConfigError("--json and --html exclude each other. Give one.")
    if html is not None:
        LINEAGE.check(html)
    link = chain(path)
    if html is not None:
        write_lineage(link, html)
        notice(f"written: {html}")
    elif as_json:
        write_stdout(json.dumps(link.values(), indent=2, ensure_ascii=False) + "\n")
    else:
        write_stdout(_as_text(link))
    for change in link.changes:
        warn(change)
    if link.changes:
        raise typer.Exit(1)


def _as_text(link: Link) -> str:
    return "".join(f"{printable(line.replace(chr(10), ' '))}\n" for line in _lines(link, ""))


def _lines(link: Link, indent: str) -> Iterator[str]:
    states = {"unchanged": "unchanged", "changed": "CHANGED", "not here": "not here", "not checked": ""}
    state = f"not checked: {link.why_not_checked}" if link.why_not_checked else states[link.state]
    yield f"{indent}{link.kind}: {link.name}{f'  [{state}]' if state else ''}"
    inner = f"{indent}    "
    for label, text in link.facts_in_words.items():
        yield f"{inner}{label}: {text}"
    for part in link.made_from:
        yield from _lines(part, inner)
