"""HTML as values: what was not escaped cannot get into a page.

:data:`Html` is a type of its own, and only the functions here make one. A plain string must go through :func:`text`
first, and mypy sees to it.
"""

from __future__ import annotations

import html
from collections.abc import Container, Iterable, Sequence
from importlib import resources
from typing import NewType

Html = NewType("Html", str)
"""Markup that is safe to put into a page as it is."""

NOTHING = Html("")
_ASSETS = resources.files("nmt.reports") / "assets"
# The elements of HTML (not of SVG) that have no end tag.
_VOID = frozenset({"br", "img", "input", "meta"})


def text(value: object) -> Html:
    """Anything as text: characters with a meaning in HTML are escaped."""
    return Html(html.escape(str(value)))


def element(name: str, /, *children: Html, **attributes: str | bool | None) -> Html:
    """An element with its children.

    Args:
        attributes: escaped here. ``class_`` is the attribute class, ``data_from`` is data-from. True gives an attribute
            without a value; False and None leave it out.
    """
    begin = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(begin if name in _VOID else f"{begin}{''.join(children)}</{name}>")


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(value)}"'


def join(parts: Iterable[Html]) -> Html:
    """Parts one behind the other."""
    return Html("".join(parts))


def section(title: str, *children: Html) -> Html:
    """A part of the page under its heading; nothing where it would be empty."""
    return element("section", element("h2", text(title)), *children) if any(children) else NOTHING


def details(summary: str, *children: Html, open_: bool = False) -> Html:
    """A part that the reader unfolds."""
    return element("details", element("summary", text(summary)), *children, open=open_)


def table(
    header: Sequence[str], rows: Iterable[Sequence[Html]], *, numbers: Container[int] = (), long: bool = False
) -> Html:
    """A table that scrolls sideways by itself where it is wider than the page.

    Args:
        header: no header row where it is empty.
        numbers: the columns, from 0, that are aligned as numbers.
        long: it may have many rows, and scrolls down by itself too.
    """

    def cells(name: str, row: Sequence[Html]) -> Html:
        kinds = ("number" if column in numbers else None for column in range(len(row)))
        return element("tr", *(element(name, cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))

    head = element("thead", cells("th", [text(title) for title in header])) if header else NOTHING
    body = element("tbody", *(cells("td", row) for row in rows))
    return element("div", element("table", head, body), class_="scrolling long" if long else "scrolling")


def page(title: str, *body: Html, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """A whole page, which loads nothing from anywhere.

    Args:
        styles: files of ``assets/`` to put in, behind the style that all pages share.
        scripts: likewise. A page must be readable without them.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", text(title)),
        *(element("style", _asset(name)) for name in ("page.css", *styles)),
    )
    content = element("body", element("main", *body), *(element("script", _asset(name)) for name in scripts))
    return f"<!doctype html>\n{element('html', head, content, lang='en')}\n"


def _asset(name: str) -> Html:
    return Html("\n" + (_ASSETS / name).read_text("utf-8"))
