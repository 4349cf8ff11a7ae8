"""The attention weights that a page's script reads: 16 bits per weight."""

from __future__ import annotations

import base64
import json

import numpy as np
from numpy.typing import NDArray

from nmt.reports.attention_views import View
from nmt.reports.html import Html, element
from nmt.reports.labelled_attention import LabelledAttention

UNITS = 65_535
"""A weight of 1 in the units that are stored. The weights of each row sum to exactly this number."""


def quantised(weights: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Weights in units of 1/65535, of which each row sums to exactly 1.

    Each weight changes by less than a unit, apart from the rounding errors of a row that did not sum to 1: weights are
    rounded down, and the units that the row then lacks go to the weights that lost most.
    """
    positive = np.clip(weights.astype(np.float64), 0, None)
    exact = positive * (UNITS / positive.sum(-1, keepdims=True))
    whole = np.floor(exact)
    lacking = UNITS - whole.sum(-1, keepdims=True)
    rank = np.argsort(np.argsort(whole - exact, axis=-1, kind="stable"), axis=-1, kind="stable")
    return np.asarray(whole + (rank < lacking), np.uint16)


def weights_for_script(attentions: list[LabelledAttention], views: list[View]) -> Html:
    """A script element with the weights, pieces and views of a pair of sentences as JSON.

    The weights are 16-bit integers, little-endian, in base64.
    """
    content = {
        "attentions": {
            each.name: {
                "title": each.title,
                "layers": each.layers,
                "heads": each.heads,
                "rows": each.rows,
                "columns": each.columns,
                "weights": base64.b64encode(quantised(each.weights).astype("<u2").tobytes()).decode("ascii"),
            }
            for each in attentions
        },
        "views": [
            {"name": view.name, "layer": view.layer, "heads": view.heads, "piece": view.piece,
             "criterion": view.criterion, "result": view.result}
            for view in views
        ],
    }  # fmt: skip
    # The text of a script element is not escaped like other text. Only "<" could begin a tag that ends it.
    made = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return element("script", Html(made), type="application/json", class_="weights")
