"""Matrix products with weights: in training, and in translation from copies of the weights that are quicker to use.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

import threading
import warnings

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
        self._bias_O = None if bias_O is None else bias_O.detach().to(dtype, copy=True).contiguous()
        self._is_ordered = False
        if weight_OI.device.type == "cpu" and torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            try:
                self._weight_OI = torch.ops.mkldnn._reorder_linear_weight(self._weight_OI)
                self._is_ordered = True
            except (RuntimeError, AttributeError):
                pass  # this processor, or this torch, has no products of that type
        if not self._is_ordered and weight_OI.device.type == "cpu":
            self._weight_OI = weight_OI.detach().to(dtype, copy=True)  # what it is a copy of may lie in a file

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T + b, in the type of the weight."""
        if x_NI.dtype != self._dtype:
            x_NI = x_NI.to(self._dtype)
        if not self._is_ordered:
            return F.linear(x_NI, self._weight_OI, self._bias_O)
        product: Tensor = torch.ops.mkldnn._linear_pointwise.default(
            x_NI, self._weight_OI, self._bias_O, "none", [], ""
        )
        return product


class Int8Weight:
    """A weight of 8 bits, for rows that are rounded to 8 bits as they come.

    Each output feature has a scale of its own, and so has each row, so that what a row becomes does not depend on the
    rows beside it. Sums of products are whole numbers until the scales are multiplied in again.
    """

    # Two products of a row's number (up to 255) and a weight's are summed up in 16 bits by processors that have no
    # instruction of their own for it (VNNI). With weights up to 127 such a sum could overflow.
    _GREATEST = 63
    _ROW_SCALE, _ROW_ZERO = 1 / 127, 128
    _prepacking = threading.Lock()

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        scale_O = (weight_OI.detach().abs().amax(dim=1).double() / self._GREATEST).clamp_min_(1e-30)
        rounded_OI = (weight_OI.detach() / scale_O[:, None]).round().to(torch.int8)
        self._bias_O = None if bias_O is None else bias_O.detach().clone()
        with self._prepacking, warnings.catch_warnings():
            # Tensors that know their scale are going out of fashion in torch, but FBGEMM's products take no others.
            warnings.simplefilter("ignore")
            engine, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
            try:
                zero_O = torch.zeros(len(scale_O), dtype=torch.long)
                scaled_OI = torch._make_per_channel_quantized_tensor(rounded_OI, scale_O, zero_O, 0)
                self._packed = torch.ops.quantized.linear_prepack(scaled_OI, None)
            finally:
                torch.backends.quantized.engine = engine
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
        # Asking whether a weight that is no tensor needs special treatment takes as long as a small product.
        self._product = getattr(product, "_op", product)

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T + b in fp32, nearly; rows may be divided over several dimensions."""
        reach_N1 = torch.maximum(x_NI.amax(dim=-1, keepdim=True), x_NI.amin(dim=-1, keepdim=True).neg_())
        reach_N1.clamp_min_(1e-30)
        product_NO: Tensor = self._product(x_NI / reach_N1, self._ROW_SCALE, self._ROW_ZERO, self._packed)
        product_NO.mul_(reach_N1)
        return product_NO if self._bias_O is None else product_NO.add_(self._bias_O)


def laid_out(weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype) -> LaidOutWeight | Int8Weight:
    """A weight made ready for products of a type, of floating point or int8."""
    return Int8Weight(weight_OI, bias_O) if dtype == torch.int8 else LaidOutWeight(weight_OI, bias_O, dtype)


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
            (start, end): laid_out(linear.weight[start:end], None if bias is None else bias[start:end], dtype)
            for start, end in bounds
        }

    def forward(self, x_NI: Tensor) -> Tensor:
        """(N, I) to (N, O)."""
        return self.part(x_NI, 0, self._size)

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """As :meth:`Linear.part`, for the parts that were asked for."""
        return self._parts[start, end].multiply(x_NI)
