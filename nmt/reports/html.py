"""HTML as values, so that unescaped text cannot get into a page.

Only the functions here make values of the type :data:`Html`. mypy makes sure that a plain string goes through
:func:`text` first.
"""

from __future__ import annotations

import html
from collections.abc import Container, Iterable, Sequence
from importlib import resources
from typing import NewType

Html = NewType("Html", str)
"""Markup that is safe to put into a page unchanged."""

NOTHING = Html("")
_ASSETS = resources.files("nmt.reports") / "assets"
# The elements of HTML (not of SVG) that have no end tag.
_VOID = frozenset({"br", "img", "input", "meta"})


def text(value: object) -> Html:
    """A value as escaped text."""
    return Html(html.escape(str(value)))


def element(name: str, /, *children: Html, **attributes: str | bool | None) -> Html:
    """An element with its children.

    Args:
        attributes: escaped here. ``class_`` is the attribute class, ``data_from`` is data-from. True makes an attribute
            without a value; False and None make none.
    """
    begin = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(begin if name in _VOID else f"{begin}{''.join(children)}</{name}>")


def _attribute(key: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(value)}"'


def variables(**values: object) -> str:
    """Custom properties of CSS, as the value of the attribute ``style``: ``a=1`` is ``--a: 1``."""
    return "; ".join(f"--{name}: {value}" for name, value in values.items())


def join(parts: Iterable[Html]) -> Html:
    """The concatenated parts."""
    return Html("".join(parts))


def section(title: str, *children: Html) -> Html:
    """A part of the page with its heading; empty if it has no content."""
    return element("section", element("h2", text(title)), *children) if any(children) else NOTHING


def details(summary: str, *children: Html, open_: bool = False) -> Html:
    """A part that the reader can unfold."""
    return element("details", element("summary", text(summary)), *children, open=open_)


def table(
    header: Sequence[str], rows: Iterable[Sequence[Html]], *, numbers: Container[int] = (), long: bool = False
) -> Html:
    """A table that scrolls sideways if it is wider than the page.

    Args:
        header: titles of the columns; if empty, there is no header row.
        numbers: the columns, from 0, that are aligned as numbers.
        long: whether the table may have many rows, and so scrolls vertically too.
    """

    def cells(name: str, row: Sequence[Html]) -> Html:
        kinds = ("number" if column in numbers else None for column in range(len(row)))
        return element("tr", *(element(name, cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))

    head = element("thead", cells("th", [text(title) for title in header])) if header else NOTHING
    body = element("tbody", *(cells("td", row) for row in rows))
    return element("div", element("table", head, body), class_="scrolling long" if long else "scrolling")


def page(title: str, *body: Html, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """A complete, self-contained page.

    Args:
        styles: files in ``assets/`` to include after the style that all pages share.
        scripts: files in ``assets/`` to include. The page must be readable without them.
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
