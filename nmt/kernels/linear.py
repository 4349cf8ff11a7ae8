"""Linear layers that no longer learn: copies of their weights that are quicker to multiply by.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.kernels import private


class LaidOutWeight:
    """A weight in the type and, on a CPU, in the order in which products go fastest.

    A plain product arranges the weight anew each time, which costs a tenth of it with hundreds of rows, and half of it
    with the few of a single sentence's beam; and autocast casts it each time. The order is oneDNN's, the one that
    torch.compile gives to weights that do not change, and is good for any number of rows.
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
            self._weight_OI = weight_OI.detach().to(dtype, copy=True)  # what it is a copy of may lie in a file

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T + b, in the type of the weight."""
        if x_NI.dtype != self._dtype:
            x_NI = x_NI.to(self._dtype)
        if self._is_ordered:
            return private.ordered_product(x_NI, self._weight_OI, self._bias_O)
        return F.linear(x_NI, self._weight_OI, self._bias_O)


class Int8Weight:
    """A weight of 8 bits, for rows that are rounded to 8 bits as they come.

    Each output feature has a scale of its own, and so has each row, so that what a row becomes does not depend on the
    rows beside it. Sums of products are whole numbers until the scales are multiplied in again.
    """

    # Two products of a row's number (up to 255) and a weight's are summed up in 16 bits by processors that have no
    # instruction of their own for it (VNNI). With weights up to 127 such a sum could overflow.
    _GREATEST = 63
    _ROW_SCALE, _ROW_ZERO = 1 / 127, 128

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        scale_O = (weight_OI.detach().abs().amax(dim=1).double() / self._GREATEST).clamp_min_(1e-30)
        rounded_OI = (weight_OI.detach() / scale_O[:, None]).round().to(torch.int8)
        self._bias_O = None if bias_O is None else bias_O.detach().clone()
        self._packed = private.packed_int8_weight(rounded_OI, scale_O)
        self._product = private.int8_product()

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T + b in fp32, nearly; rows may be divided over several dimensions."""
        reach_N1 = torch.maximum(x_NI.amax(dim=-1, keepdim=True), x_NI.amin(dim=-1, keepdim=True).neg_())
        reach_N1.clamp_min_(1e-30)
        product_NO = self._product(x_NI / reach_N1, self._ROW_SCALE, self._ROW_ZERO, self._packed)
        product_NO.mul_(reach_N1)
        return product_NO if self._bias_O is None else product_NO.add_(self._bias_O)


def laid_out(weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype) -> LaidOutWeight | Int8Weight:
    """A weight made ready for products of a type, of floating point or int8."""
    return Int8Weight(weight_OI, bias_O) if dtype == torch.int8 else LaidOutWeight(weight_OI, bias_O, dtype)


class LaidOutLinear(nn.Module):
    """Stands in for a linear layer where nothing is learnt any more.

    Args:
        ends: the features are asked for in parts, each up to the next of these numbers; the last is their number.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype, ends: Sequence[int]) -> None:
        super().__init__()
        self._parts = {
            (start, end): laid_out(weight_OI[start:end], None if bias_O is None else bias_O[start:end], dtype)
            for start, end in zip((0, *ends), ends, strict=False)
        }
        self._all = (0, ends[-1])

    def forward(self, x_NI: Tensor) -> Tensor:
        """(N, I) to (N, O)."""
        return self._parts[self._all].multiply(x_NI)

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """The features from ``start`` to ``end`` alone: one of the parts."""
        return self._parts[start, end].multiply(x_NI)
