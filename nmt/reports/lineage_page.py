"""The page that ``nmt inspect --out`` writes: a lineage, from what was named back to the archives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from nmt.lineage.comparing import Lineage, State
from nmt.reports.pages import Page

LINEAGE = Page("nmt inspect", "lineage.html")

_STATES: dict[State, str] = {
    "unchanged": "✓ unchanged",
    "changed": "✗ changed",
    "not here": "not here",
    "not checked": "not checked",
}


def write_lineage(lineage: Lineage, path: Path) -> None:
    """Write the page atomically.

    Raises:
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    LINEAGE.write(path, lineage_page(lineage))


def lineage_page(lineage: Lineage) -> str:
    """The page about a lineage."""
    counts = Counter(part.state for part in lineage.all())
    return LINEAGE.html(
        f"Lineage: {lineage.name}",
        lineage=lineage,
        states=_STATES,
        figures=[(name, f"{counts[state]:,}") for state, name in _STATES.items() if counts[state]],
        changes=lineage.changes,
    )
