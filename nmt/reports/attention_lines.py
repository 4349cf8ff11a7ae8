"""Lines between pieces, as in figures 3 to 5 of the paper: the opacity is the weight, the colour is the head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.reports.charts import COLOURS
from nmt.reports.html import Html, element, text, variables

# Lines of similar weight share a path. Weights are rounded to this many levels; a weight at level 0 is not drawn.
_LEVELS = 10


def lines(
    rows: Sequence[str], columns: Sequence[str], weights: Mapping[int, NDArray[np.floating]], row: int | None = None
) -> Html:
    """Two columns of pieces with lines from queries (left) to keys (right).

    Args:
        weights: (rows, columns) of each head, by the number of the head.
        row: the one query to draw lines from; None draws the lines of all queries.
    """
    strokes = [path for head, found in weights.items() for path in _paths(head, found, row)]
    height = max(len(rows), len(columns))
    drawing = element(
        "svg", *strokes, class_="strokes", viewBox=f"0 0 100 {height}", preserveAspectRatio="none", aria_hidden="true"
    )
    return element(
        "div", piece_list(rows, "queries", marked=row), drawing, piece_list(columns, "keys"), class_="lines",
        style=variables(pieces=height),
    )  # fmt: skip


def piece_list(pieces: Sequence[str], class_: str, marked: int | None = None) -> Html:
    """Pieces as a list; the marked one stands out."""
    items = (
        element("li", text(piece), dir="auto", title=piece, class_="marked" if number == marked else None)
        for number, piece in enumerate(pieces)
    )
    return element("ol", *items, class_=f"pieces {class_}")


def head_class(head: int) -> str:
    """The class for the colour of a head. Heads that share a colour differ in their dashes."""
    return f"colour-{head % COLOURS} dash-{head // COLOURS % 3}"


def _paths(head: int, weights: NDArray[np.floating], row: int | None) -> list[Html]:
    levels = np.rint(np.asarray(weights) * _LEVELS).astype(int)
    if row is not None:
        levels[np.arange(len(levels)) != row] = 0
    found = []
    for level in np.unique(levels[levels > 0]):
        steps = (f"M0 {i + 0.5}L100 {j + 0.5}" for i, j in np.argwhere(levels == level))
        found.append(element("path", d="".join(steps), class_=head_class(head), opacity=f"{level / _LEVELS:.2f}"))
    return found
