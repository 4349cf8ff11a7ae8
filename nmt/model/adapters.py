"""Low-rank adapters (LoRA, Hu et al. 2021): a model learns a small change of each matrix, whose own weights stay.

Shapes: N rows, I features in, O features out, R rank.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from nmt.model.linear import Adapter, Linear
from nmt.model.transformer import Transformer

_UP, _DOWN = ".adapter.up", ".adapter.down"


def add_adapters(model: Transformer, rank: int) -> None:
    """Freeze a model, and give an adapter to each matrix of attention and feed-forward sub-layers."""
    model.requires_grad_(False)
    for module in list(model.modules()):
        if isinstance(module, Linear):
            module.adapter = Adapter(module.in_features, module.out_features, rank)


def merged(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a plain model that computes the same as one with adapters: W + B A. Other weights stay."""
    weights = {name: tensor for name, tensor in tensors.items() if not name.endswith((_UP, _DOWN))}
    for name in weights:
        adapter = name.removesuffix(".weight") + ".adapter"
        if f"{adapter}.up" in tensors:
            weights[name] = weights[name] + tensors[f"{adapter}.up"] @ tensors[f"{adapter}.down"]
    return weights
