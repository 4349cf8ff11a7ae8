"""The three attentions of a model, each with the pieces of its rows (queries) and columns (keys)."""

# Shapes: L layers, H heads, R rows, C columns.

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nmt.translation.attention_maps import AttentionMaps

AttentionName = Literal["encoder", "decoder", "memory"]
ATTENTIONS: tuple[AttentionName, ...] = ("encoder", "decoder", "memory")


@dataclass(frozen=True)
class LabelledAttention:
    """One of the three attentions."""

    name: AttentionName
    title: str
    legend: str
    """What the rows and columns are, in one or two sentences."""
    rows: tuple[str, ...]
    """The piece of each query."""
    columns: tuple[str, ...]
    """The piece of each key."""
    weights: NDArray[np.float32]
    """(L, H, R, C); each row sums to 1."""

    @property
    def layers(self) -> int:
        """The number of layers."""
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        """The number of heads per layer."""
        return int(self.weights.shape[1])


def labelled(maps: AttentionMaps, name: AttentionName) -> LabelledAttention:
    """One attention of a pair of sentences, with its labels."""
    if name == "encoder":
        return LabelledAttention(
            name,
            "Encoder self-attention",
            "Rows (queries) and columns (keys) are the source pieces.",
            maps.source_pieces,
            maps.source_pieces,
            maps.encoder,
        )
    if name == "decoder":
        return LabelledAttention(
            name,
            "Decoder self-attention",
            "Rows (queries) and columns (keys) are the pieces that the decoder reads. "
            "A piece attends to itself and to earlier pieces.",
            maps.input_pieces,
            maps.input_pieces,
            maps.decoder,
        )
    return LabelledAttention(
        name,
        "Decoder attention over the encoder",
        "Rows (queries) are the target pieces, each at the position that predicts it. Columns (keys) are the source "
        "pieces.",
        maps.output_pieces,
        maps.source_pieces,
        maps.memory,
    )
