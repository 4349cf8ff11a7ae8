"""Matrix products with weights: in training, and in translation from copies of the weights that are quicker to use.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """x W^T + b, all features at once or some of them alone."""

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """The features from ``start`` to ``end`` alone."""
        return F.linear(x_NI, self.weight[start:end], None if self.bias is None else self.bias[start:end])


class LaidOutWeight:
    """A weight in the type and, on a CPU, in the order in which products go fastest.

    A plain product arranges the weight anew each time, which costs a tenth of it with hundreds of rows, and half of it
    with the few of a single sentence's beam; and autocast casts it each time. The order is oneDNN's, the one that
    torch.compile gives to weights that do not change, and is good for any number of rows.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._weight_OI = weight_OI.detach().to(dtype).contiguous()
        self._bias_O = None if bias_O is None else bias_O.detach().to(dtype).contiguous()
        self._is_ordered = False
        if weight_OI.device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            try:
                self._weight_OI = torch.ops.mkldnn._reorder_linear_weight(self._weight_OI)
                self._is_ordered = True
            except (RuntimeError, AttributeError):
                pass  # this processor, or this torch, has no products of that type

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T + b, in the type of the weight."""
        x_NI = x_NI.to(self._dtype)
        if not self._is_ordered:
            return F.linear(x_NI, self._weight_OI, self._bias_O)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, self._weight_OI, self._bias_O, "none", [], "")
        return product


class LaidOutLinear(nn.Module):
    """Stands in for :class:`Linear` where nothing is learnt any more."""

    def __init__(self, linear: Linear | LaidOutLinear, dtype: torch.dtype, cut: int | None = None) -> None:
        """Copy a linear's weights.

        Args:
            cut: where the features are divided whose two parts are asked for, instead of all at once.
        """
        super().__init__()
        assert isinstance(linear, Linear), "what is laid out stays so"
        bias, self._size = linear.bias, linear.out_features
        bounds = [(0, self._size)] if cut is None else [(0, cut), (cut, self._size)]
        self._parts = {
            (start, end): LaidOutWeight(linear.weight[start:end], None if bias is None else bias[start:end], dtype)
            for start, end in bounds
        }

    def forward(self, x_NI: Tensor) -> Tensor:
        """(N, I) to (N, O)."""
        return self.part(x_NI, 0, self._size)

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """As :meth:`Linear.part`, for the parts that were asked for."""
        return self._parts[start, end].multiply(x_NI)
