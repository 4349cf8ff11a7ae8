"""The page that ``nmt inspect --html`` writes: a chain, from what was named back to the archives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from nmt.lineage.link import Link, State
from nmt.reports.pages import Page

LINEAGE = Page("nmt inspect", "lineage.html", option="--html")

_STATES: dict[State, str] = {
    "unchanged": "✓ unchanged",
    "changed": "✗ changed",
    "not here": "not here",
    "not checked": "not checked",
}


def write_lineage(link: Link, path: Path) -> None:
    """Write the page atomically.

    Raises:
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    LINEAGE.write(path, lineage_page(link))


def lineage_page(link: Link) -> str:
    """The page about a chain."""
    counts = Counter(part.state for part in link.all())
    return LINEAGE.html(
        f"Lineage: {link.name}",
        link=link,
        states=_STATES,
        figures=[(name, f"{counts[state]:,}") for state, name in _STATES.items() if counts[state]],
        changes=link.changes,
    )
