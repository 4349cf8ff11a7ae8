"""Embeddings of toolkits that do not multiply them by sqrt(d_model), as ours are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from nmt.convert.foreign import Array


def exact_scale(d_model: int) -> float | None:
    """sqrt(d_model) if numbers can be divided by it without rounding: if it is a power of two."""
    scale = math.sqrt(d_model)
    return scale if math.frexp(scale)[0] == 0.5 else None


def divided(tensors: Mapping[str, Array], names: Iterable[str], scale: float) -> dict[str, Array]:
    """The tensors of some names divided by a scale, under the names ``NAME / SCALE``."""
    return {scaled_name(name, scale): tensors[name] / np.float32(scale) for name in names}


def scaled_name(name: str, scale: float) -> str:
    """The name of a tensor that is divided by a scale."""
    return f"{name} / {scale:g}"
