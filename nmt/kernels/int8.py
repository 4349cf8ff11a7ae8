"""Weights of 8 bits, multiplied by rows that are rounded to 8 bits on the fly.

Two libraries multiply them. FBGEMM is made for AVX2 and AVX-512, and multiplies few rows. oneDNN also uses AMX;
whether it multiplies many rows faster is found out on the machine, for each size of a weight.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

import functools
from typing import Protocol

import torch
from torch import Tensor

from nmt.kernels import private
from nmt.machine.device import BASE_PRODUCT
from nmt.machine.measured import remembered, speedup

# The rows of a small batch of hypotheses.
_TRIAL_ROWS, _FIRST_ROWS = 64, 4
_HOPELESS = 0.01
"""A speedup with the first rows below which the others are not tried."""
# oneDNN needs a copy of the weights of its own, and compiles products, so it must gain something.
_MIN_SPEEDUP = 1.1
# Up to so many rows FBGEMM is faster with most weights, also on a processor with AMX (docs/performance.md).
_FEW_ROWS = 32
# Added to the step of each row, so that a row of zeros has one too. A tensor, because one operation then multiplies
# and adds.
_SMALLEST_STEP = torch.tensor(1e-30)


class Int8Product(Protocol):
    """A packed weight, multiplied by a library. Both libraries give the same numbers, bit for bit."""

    def __init__(self, weight_OI: Tensor, scale_O: Tensor) -> None:
        """Pack a weight of int8 numbers, with the scale of each output feature (float64)."""
        ...

    def multiply(self, x_NI: Tensor) -> Tensor:
        """x W^T, where x is whole numbers from -127 to 127 (fp32); rows may have several dimensions."""
        ...


class FbgemmProduct:
    """Multiplied by FBGEMM, which makes the rows unsigned."""

    _ROW_SCALE, _ROW_ZERO = 1.0, 128

    def __init__(self, weight_OI: Tensor, scale_O: Tensor) -> None:
        self._packed = private.packed_int8_weight(weight_OI, scale_O)
        self._product = private.int8_product()

    def multiply(self, x_NI: Tensor) -> Tensor:
        """As :meth:`Int8Product.multiply`."""
        return self._product(x_NI, self._ROW_SCALE, self._ROW_ZERO, self._packed)


class OnednnProduct:
    """Multiplied by oneDNN."""

    def __init__(self, weight_OI: Tensor, scale_O: Tensor) -> None:
        self._packed = private.onednn_int8_weight(weight_OI)
        self._scale_O = scale_O.float()
        self._zero_O = torch.zeros(len(scale_O), dtype=torch.long)
        self._product = private.onednn_int8_product()

    def multiply(self, x_NI: Tensor) -> Tensor:
        """As :meth:`Int8Product.multiply`."""
        return self._product(x_NI.to(torch.int8), self._packed, self._scale_O, self._zero_O)


class Int8Weight:
    """A weight rounded to 8 bits.

    Each output feature has its own scale, and so has each row, so the result of a row does not depend on the rows
    beside it. Products are summed as integers, until the scales are multiplied in again.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None) -> None:
        """Round and pack a weight."""
        kind = fastest_int8_product(weight_OI.shape[1], weight_OI.shape[0])
        kinds = {FbgemmProduct, kind}
        greatest = min(map(greatest_weight, kinds))
        scale_O = (weight_OI.detach().abs().amax(dim=1).double() / greatest).clamp_min_(1e-30)
        rounded_OI = (weight_OI.detach() / scale_O[:, None].to(weight_OI.dtype)).round_().to(torch.int8)
        self._bias_O = None if bias_O is None else bias_O.detach().clone()
        self._product_of_few = FbgemmProduct(rounded_OI, scale_O)
        self._product_of_many = self._product_of_few if kind is FbgemmProduct else kind(rounded_OI, scale_O)

    def multiply(self, x_NI: Tensor) -> Tensor:
        """Approximately x W^T + b, in fp32; there may be several dimensions of rows. No gradient passes."""
        x_NI = x_NI.detach()
        # The largest number of a row is 127 steps. The rounded row takes the memory of the absolute values.
        absolute_NI = x_NI.abs()
        step_N1 = torch.add(_SMALLEST_STEP, absolute_NI.amax(dim=-1, keepdim=True), alpha=1 / 127)
        rounded_NI = torch.mul(x_NI, step_N1.reciprocal(), out=absolute_NI).round_()
        is_few = x_NI.numel() <= _FEW_ROWS * x_NI.shape[-1]
        product = self._product_of_few if is_few else self._product_of_many
        product_NO = product.multiply(rounded_NI).mul_(step_N1)
        return product_NO if self._bias_O is None else product_NO.add_(self._bias_O)


@functools.cache
def fastest_int8_product(features: int, outputs: int) -> type[Int8Product]:
    """The library that multiplies many rows faster by a weight of this size, on this machine."""
    is_faster = may_use_onednn() and onednn_speedup(features, outputs) >= _MIN_SPEEDUP
    return OnednnProduct if is_faster else FbgemmProduct


def may_use_onednn() -> bool:
    """Whether any weight may be multiplied by oneDNN: where it is faster for the base model's larger product.

    Asked before the sizes of a model are known.
    """
    return onednn_speedup(*BASE_PRODUCT) >= _MIN_SPEEDUP


def onednn_speedup(features: int, outputs: int) -> float:
    """How many times as fast as FBGEMM oneDNN is, as measured on this machine; 0 if it cannot be used."""
    if not _multiplies_right(OnednnProduct):
        return 0.0
    name = f"speedup of oneDNN over FBGEMM, int8, {features} by {outputs}"
    return remembered(name, lambda: _onednn_speedup(features, outputs))


@functools.cache
def greatest_weight(kind: type[Int8Product]) -> int:
    """The greatest weight with which sums do not overflow.

    Processors without VNNI add two products, each of a row's number (up to 255) and a weight, in 16 bits, and cut off
    the sum. With weights up to 63 it fits.
    """
    return 127 if _sum_of_greatest(kind, 127) == 127 else 63


def _multiplies_right(kind: type[Int8Product]) -> bool:
    """Whether this torch and this processor have the product, and its sums fit."""
    try:
        return _sum_of_greatest(kind, 63) == 63
    except (RuntimeError, AttributeError, TypeError):
        return False


def _sum_of_greatest(kind: type[Int8Product], weight: int) -> int:
    """The mean of the products of greatest numbers and equal weights: the weight, unless sums are cut off."""
    rows, features, outputs = 2 * _FEW_ROWS, 64, 16
    weight_OI = torch.full((outputs, features), weight, dtype=torch.int8)
    product = kind(weight_OI, torch.ones(outputs, dtype=torch.double))
    return round(product.multiply(torch.full((rows, features), 127.0)).mean().item() / features / 127)


def _onednn_speedup(features: int, outputs: int) -> float:
    generator = torch.Generator().manual_seed(0)
    weight_OI = torch.randint(-63, 64, (outputs, features), dtype=torch.int8, generator=generator)
    x_NI = torch.randn(_TRIAL_ROWS, features, generator=generator).mul_(30).round_()
    fbgemm, onednn = (
        kind(weight_OI, torch.ones(outputs, dtype=torch.double)) for kind in (FbgemmProduct, OnednnProduct)
    )
    first = speedup(lambda: fbgemm.multiply(x_NI[:_FIRST_ROWS]), lambda: onednn.multiply(x_NI[:_FIRST_ROWS]))
    return first if first < _HOPELESS else speedup(lambda: fbgemm.multiply(x_NI), lambda: onednn.multiply(x_NI))
