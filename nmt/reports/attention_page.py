"""The page about the attention of a model: every head as a small map, and figures 3 to 5 of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.reports.attention_views import views
from nmt.reports.labelled_attention import ATTENTIONS, LabelledAttention, labelled
from nmt.reports.pages import Page

if TYPE_CHECKING:
    from nmt.translation.attention_maps import AttentionMaps

ATTENTION = Page("nmt attention", "attention.html")

UNITS = 10_000
"""A weight of 1 in the integers of the page, which shows weights to 1/1,000. The script has the same number."""


def attention_page(maps: Sequence[AttentionMaps]) -> str:
    """A self-contained page about the attention in one or more pairs of sentences. Its script draws everything."""
    title = f"Attention: {', '.join(dict.fromkeys(each.model for each in maps))}"
    return ATTENTION.html(title, sentences=list(map(_sentence, maps)))


def _sentence(maps: AttentionMaps) -> dict[str, Any]:
    return {
        "source": maps.source,
        "target": maps.target,
        "attentions": {name: _attention(labelled(maps, name)) for name in ATTENTIONS},
        "views": [asdict(view) for view in views(maps)],
    }


def _attention(attention: LabelledAttention) -> dict[str, Any]:
    """Labels and weights, nested by layer, head, row and column."""
    return vars(attention) | {"weights": np.rint(attention.weights * UNITS).astype(int).tolist()}
