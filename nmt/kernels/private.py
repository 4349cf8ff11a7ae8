"""The operations of torch's private interface for products of prepacked weights.

A test fails when a new torch drops one of them.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_setting_the_engine = threading.Lock()


def ordered_weight(weight_OI: Tensor) -> Tensor | None:
    """A weight in the memory order of oneDNN's products; None if this torch or this processor has no such order."""
    if weight_OI.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    try:
        ordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        _ = torch.ops.mkldnn._linear_pointwise.default
    except (RuntimeError, AttributeError):
        return None
    return ordered


def ordered_product(x_NI: Tensor, ordered: Tensor, bias_O: Tensor | None) -> Tensor:
    """x W^T + b with a weight from :func:`ordered_weight`."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x_NI, ordered, bias_O, "none", [], "")
    return product


def packed_int8_weight(weight_OI: Tensor, scale_O: Tensor) -> Any:
    """A weight of int8 numbers with a scale per output feature, for :func:`int8_product`."""
    with _setting_the_engine, warnings.catch_warnings():
        # torch deprecates tensors that hold their scale, but FBGEMM's products take no others.
        warnings.simplefilter("ignore")
        engine, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
        try:
            zero_O = torch.zeros(len(scale_O), dtype=torch.long)
            scaled_OI = torch._make_per_channel_quantized_tensor(weight_OI, scale_O, zero_O, 0)
            return torch.ops.quantized.linear_prepack(scaled_OI, None)
        finally:
            torch.backends.quantized.engine = engine


def int8_product() -> Callable[[Tensor, float, int, Any], Tensor]:
    """The product of rows and a packed weight: a function of rows, their scale, their zero and the weight, in fp32."""
    operation = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
    # The public call first checks for fake script objects, which takes as long as a small product.
    multiply: Callable[[Tensor, float, int, Any], Tensor] = operation._op
    return multiply


def onednn_int8_weight(weight_OI: Tensor) -> Tensor:
    """A weight of int8 numbers in the memory order of :func:`onednn_int8_product`.

    Raises:
        RuntimeError, AttributeError: this torch or this processor has no such products.
    """
    packed: Tensor = torch.ops.onednn.qlinear_prepack(weight_OI, None)
    return packed


def onednn_int8_product() -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The product of int8 rows and a weight: a function of rows, weight, and scale and zero per feature, in fp32.

    Raises:
        AttributeError: this torch has no such product.
    """
    operation = torch.ops.onednn.qlinear_pointwise.default._op

    def multiply(rows_NI: Tensor, packed: Tensor, scale_O: Tensor, zero_O: Tensor) -> Tensor:
        product_NO: Tensor = operation(
            rows_NI, 1.0, 0, packed, scale_O, zero_O, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product_NO

    return multiply
