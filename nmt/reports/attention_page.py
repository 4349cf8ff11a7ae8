"""The attention weights of sentences as a page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.reports.attention_views import views
from nmt.reports.pages import Page
from nmt.text.printable import writable

if TYPE_CHECKING:
    from nmt.translation.attention_maps import AttentionMaps

ATTENTION = Page("nmt attention", "attention.html")
UNITS = 10_000
"""A weight of 1 in the integers of the page, which shows weights to 1/1,000. The script has the same number."""
ATTENTIONS = {
    "encoder": ("Encoder self-attention", "Rows (queries) and columns (keys) are the source pieces."),
    "decoder": (
        "Decoder self-attention",
        "Rows (queries) and columns (keys) are the pieces that the decoder reads. A piece attends to itself and to "
        "earlier pieces.",
    ),
    "memory": (
        "Decoder attention over the encoder",
        "Rows (queries) are the target pieces, each at the position that predicts it. Columns (keys) are the source "
        "pieces.",
    ),
}
"""The three attentions of a model: a title, and what the rows and columns are."""

# Enough to tell apart all float32 weights that differ by more than rounding.
_DIGITS = 7
_FIELDS = ("model", "source", "target", "source_pieces", "input_pieces", "output_pieces", *ATTENTIONS)


def attention_page(maps: Sequence[AttentionMaps]) -> str:
    """A self-contained page about the attention in one or more pairs of sentences. Its script draws everything:
    every head as a small map, and figures 3 to 5 of the paper."""
    title = f"Attention: {', '.join(dict.fromkeys(each.model for each in maps))}"
    return ATTENTION.html(title, sentences=list(map(_sentence, maps)))


def _sentence(maps: AttentionMaps) -> dict[str, Any]:
    return {
        "source": maps.source,
        "target": maps.target,
        "attentions": {name: _attention(maps, name) for name in ATTENTIONS},
        "views": [asdict(view) for view in views(maps)],
    }


def _attention(maps: AttentionMaps, name: str) -> dict[str, Any]:
    """Labels, and weights nested by layer, head, row (query) and column (key)."""
    rows = {"encoder": maps.source_pieces, "decoder": maps.input_pieces, "memory": maps.output_pieces}[name]
    columns = maps.input_pieces if name == "decoder" else maps.source_pieces
    weights = np.rint(getattr(maps, name) * UNITS).astype(int).tolist()
    title, legend = ATTENTIONS[name]
    return {"title": title, "legend": legend, "rows": rows, "columns": columns, "weights": weights}


def json_lines(maps: Sequence[AttentionMaps]) -> str:
    """One JSON object per sentence and line, with the fields of :class:`AttentionMaps`.

    Weights are nested lists (layer, head, query, key) of numbers with 7 significant digits.
    """
    records = ({name: _plain(getattr(each, name)) for name in _FIELDS} for each in maps)
    return "".join(f"{writable(json.dumps(record, ensure_ascii=False))}\n" for record in records)


def _plain(value: Any) -> Any:
    """A field for JSON."""
    if not isinstance(value, np.ndarray):
        return value
    rounded = [float(f"{weight:.{_DIGITS}g}") for weight in value.astype(np.float64).ravel()]
    return np.array(rounded).reshape(value.shape).tolist()
