"""The three attentions of a model, each with the pieces of its rows (queries) and columns (keys)."""

# Shapes: L layers, H heads, R rows, C columns.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nmt.translation.attention_maps import AttentionMaps


AttentionName = Literal["encoder", "decoder", "memory"]
ATTENTIONS: tuple[AttentionName, ...] = ("encoder", "decoder", "memory")

_TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "memory": "Decoder attention over the encoder",
}
_LEGENDS = {
    "encoder": "Rows (queries) and columns (keys) are the source pieces.",
    "decoder": "Rows (queries) and columns (keys) are the pieces that the decoder reads. "
    "A piece attends to itself and to earlier pieces.",
    "memory": "Rows (queries) are the target pieces, each at the position that predicts it. "
    "Columns (keys) are the source pieces.",
}


@dataclass(frozen=True)
class LabelledAttention:
    """One of the three attentions."""

    title: str
    legend: str
    """What the rows and columns are, in one or two sentences."""
    rows: tuple[str, ...]
    """The piece of each query."""
    columns: tuple[str, ...]
    """The piece of each key."""
    weights: NDArray[np.float32]
    """(L, H, R, C); each row sums to 1."""


def labelled(maps: AttentionMaps, name: AttentionName) -> LabelledAttention:
    """One attention of a pair of sentences, with its labels."""
    pieces = {
        "encoder": (maps.source_pieces, maps.source_pieces),
        "decoder": (maps.input_pieces, maps.input_pieces),
        "memory": (maps.output_pieces, maps.source_pieces),
    }
    return LabelledAttention(_TITLES[name], _LEGENDS[name], *pieces[name], getattr(maps, name))
