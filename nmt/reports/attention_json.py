"""Attention weights as JSON text."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from nmt.printable import writable
from nmt.translation.attention_maps import AttentionMaps

# Enough to tell apart all float32 weights that differ by more than rounding.
_DIGITS = 7


def attention_json(maps: AttentionMaps) -> str:
    """One JSON object on one line, with the fields of :class:`AttentionMaps`.

    Weights are nested lists (layer, head, query, key) of numbers with 7 significant digits.
    """
    content = json.dumps(
        {
            "model": maps.model,
            "source": maps.source,
            "target": maps.target,
            "source_pieces": maps.source_pieces,
            "input_pieces": maps.input_pieces,
            "output_pieces": maps.output_pieces,
            "encoder": _nested(maps.encoder),
            "decoder": _nested(maps.decoder),
            "memory": _nested(maps.memory),
        },
        ensure_ascii=False,
    )
    return writable(content)


def _nested(weights: NDArray[np.float32]) -> list[object]:
    rounded = [float(f"{weight:.{_DIGITS}g}") for weight in weights.astype(np.float64).ravel()]
    nested: list[object] = np.array(rounded).reshape(weights.shape).tolist()
    return nested
