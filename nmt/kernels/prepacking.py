"""Weights that no longer learn, prepacked for fast products.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.kernels import private
from nmt.kernels.int8 import Int8Weight
from nmt.model.linear import Linear
from nmt.model.transformer import Transformer


class FloatWeight:
    """A weight in the dtype and, on a CPU, in the memory order of the fastest product.

    A plain product reorders the weight at every call. This takes a tenth of its time with hundreds of rows, and half of
    it with the few rows of a single sentence's beam. Autocast also casts the weight at every call. The order is
    oneDNN's, the one that torch.compile gives to constant weights; it suits any number of rows.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._weight_OI = weight_OI.detach().to(dtype).contiguous()
        self._bias_O = None if bias_O is None else bias_O.detach().to(dtype, copy=True).contiguous()
        ordered = private.ordered_weight(self._weight_OI)
        self._is_ordered = ordered is not None
        if ordered is not None:
            self._weight_OI = ordered
        elif weight_OI.device.type == "cpu":
            self._weight_OI = weight_OI.detach().to(dtype, copy=True)  # the original may be mapped from a file

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T + b, in the dtype of the weight."""
        if x_NI.dtype != self._dtype:
            x_NI = x_NI.to(self._dtype)
        if self._is_ordered:
            return private.ordered_product(x_NI, self._weight_OI, self._bias_O)
        return F.linear(x_NI, self._weight_OI, self._bias_O)


def prepacked(weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype) -> FloatWeight | Int8Weight:
    """A weight for products in ``dtype``: a floating-point type or int8."""
    return Int8Weight(weight_OI, bias_O) if dtype == torch.int8 else FloatWeight(weight_OI, bias_O, dtype)


class PrepackedLinear(nn.Module):
    """Takes the place of a :class:`Linear` that no longer learns; ``ends`` are those of the layer."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype, ends: Sequence[int]) -> None:
        super().__init__()
        self._parts = {
            (start, end): prepacked(weight_OI[start:end], None if bias_O is None else bias_O[start:end], dtype)
            for start, end in zip((0, *ends), ends, strict=False)
        }
        self._all = (0, ends[-1])

    def forward(self, x_NI: Tensor) -> Tensor:
        """(N, I) to (N, O)."""
        return self._parts[self._all].multiply(x_NI)

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """Only the features from ``start`` to ``end``, which must be one of the parts."""
        return self._parts[start, end].multiply(x_NI)


def prepack(model: Transformer, dtype: torch.dtype) -> None:
    """Prepare a model for inference only: from now on it multiplies in ``dtype``, by prepacked weights.

    They replace the weights of its linear layers and of its output projection. Kernels that suit them are chosen by
    :func:`nmt.kernels.policy.choose_kernels`.
    """
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Linear):
                setattr(module, name, PrepackedLinear(child.weight, child.bias, dtype, child.ends))
    embedding = model.embedding
    product = prepacked(embedding.projection, embedding.output_bias, dtype)
    setattr(embedding, "multiply", product.multiply)  # noqa: B010
