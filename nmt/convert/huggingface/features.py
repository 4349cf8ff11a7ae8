"""The features of the residual stream in another order.

MarianMT's positions are all sines, then all cosines; the paper's are side by side. A post-norm model computes the same
with its features in any order, as long as all that reads or writes the residual stream follows.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_READERS = ("query_key_value.weight", "feed_forward.inner.weight", "embedding.weight", "embedding.source_weight",
            "embedding.output_weight", "positions.weight")  # fmt: skip
"""The ends of names of matrices whose columns are features."""
_WRITERS = ("attention.output.weight", "attention.output.bias", "feed_forward.output.weight",
            "feed_forward.output.bias", "norm.weight", "norm.bias")  # fmt: skip
"""The ends of names of matrices whose rows are features."""


def sines_first(d_model: int) -> Tensor:
    """Which of the paper's features stands at each place: those of sines, then those of cosines; (D)."""
    return torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])


def with_features(weights: Mapping[str, Tensor], order_D: Tensor) -> dict[str, Tensor]:
    """The weights, by our names, with the features of the residual stream in another order.

    Args:
        order_D: the present feature of each place.
    """
    return {name: _reordered(name, weight, order_D) for name, weight in weights.items()}


def _reordered(name: str, weight: Tensor, order_D: Tensor) -> Tensor:
    if name.endswith(_READERS):
        return weight[:, order_D]
    return weight[order_D] if name.endswith(_WRITERS) else weight
