"""The page that ``nmt inspect --html`` writes: a chain, from what was named back to the archives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import nmt
from nmt.files import replacing
from nmt.lineage.link import Link, State
from nmt.ownership import Kind, check_replaceable
from nmt.reports.html import NOTHING, Html, element, page, section, text

_TITLE = "Lineage: "
_FOOTER = "Written by nmt inspect, version "
_STATES: dict[State, str] = {
    "unchanged": "✓ unchanged",
    "changed": "✗ changed",
    "not here": "not here",
    "not checked": "not checked",
}


def _is_page(path: Path) -> bool:
    with path.open("rb") as stream:
        return f"<title>{_TITLE}".encode() in stream.read(1_000) and f"<footer>{_FOOTER}".encode() in stream.read()


LINEAGE_PAGE = Kind("a page of nmt inspect", _is_page)


def check_lineage_page(path: Path) -> None:
    """Check that the page can be written, before the chain is followed.

    Raises:
        OutputError: something else exists at ``path``.
    """
    check_replaceable(path, LINEAGE_PAGE, option="--html")


def write_lineage(link: Link, path: Path) -> None:
    """Write the page atomically.

    Raises:
        OutputError: something else exists at ``path``.
        WriteError: the file cannot be written.
    """
    check_lineage_page(path)
    content = lineage_page(link).encode("utf-8", errors="replace")
    with replacing(path) as stream:
        stream.write(content)


def lineage_page(link: Link) -> str:
    """The page about a chain."""
    title = f"{_TITLE}{link.name}"
    return page(
        title,
        element("h1", text(title)),
        _figures(link),
        section("Changes", _changes(link)),
        section("Chain", element("ol", _item(link), class_="chain")),
        element("footer", text(f"{_FOOTER}{nmt.__version__}.")),
        styles=["lineage.css"],
    )


def _figures(link: Link) -> Html:
    """How many links there are of each state."""
    counts = Counter(part.state for part in link.all())
    tiles = (
        element("div", element("dt", text(_STATES[state])), element("dd", text(f"{counts[state]:,}")))
        for state in _STATES
        if counts[state]
    )
    return element("dl", *tiles, class_="figures")


def _changes(link: Link) -> Html:
    changes = list(dict.fromkeys(part.change for part in link.all() if part.change))
    if not changes:
        return NOTHING
    return element("ul", *(element("li", text(change)) for change in changes), class_="changes")


def _item(link: Link) -> Html:
    """A link with all that it was made from."""
    state = element("span", text(_STATES[link.state]), class_=link.state.replace(" ", "-"))
    heading = element("h3", text(f"{link.kind}: {link.name} "), state)
    facts = [part for label, fact in link.facts.items() for part in _fact(label, str(fact))]
    below = element("ol", *map(_item, link.made_from)) if link.made_from else NOTHING
    return element("li", element("div", heading, element("dl", *facts) if facts else NOTHING), below)


def _fact(label: str, fact: str) -> Sequence[Html]:
    return element("dt", text(label)), element("dd", text(fact))
