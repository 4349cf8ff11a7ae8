"""Dropout (section 5.4) with masks that are cheap on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_STEPS = 1 << 16


def dropout(x: Tensor, probability: float, *, training: bool) -> Tensor:
    """Zero each number with a probability and scale up the others to keep the mean; the identity in eval mode.

    On a CPU torch draws a float per number, which takes more than a tenth of the training time; :func:`keep_mask` draws
    16 bits instead.
    """
    if not training or probability == 0.0:
        return x
    if not _draws_bits(x):
        return F.dropout(x, probability)
    return x * keep_mask(x, probability)


def keep_mask(x: Tensor, probability: float) -> Tensor:
    """The factors of :func:`dropout`, 0 or the scale, in the shape and dtype of ``x``.

    On a CPU one draw of 64 bits decides about four numbers. The probability is exact to 1/65,536, and less than 1; the
    scale matches it exactly. The bits come from numpy's generator, twice as fast as torch's; torch draws its seed.
    """
    if not _draws_bits(x):
        return F.dropout(torch.ones_like(x), probability)
    dropped = min(round(probability * _STEPS), _STEPS - 1)
    generator = np.random.SFC64(int(torch.randint(2**63 - 1, ())))
    bits = torch.from_numpy(generator.random_raw(-(-x.numel() // 4)).view(np.int16))
    draws = bits[: x.numel()].view(x.shape)
    # The comparison writes 0 and 1 in the dtype of x: a cast would take longer than everything else.
    keep = torch.ge(draws, dropped - _STEPS // 2, out=torch.empty(x.shape, dtype=x.dtype))
    return keep.mul_(_STEPS / (_STEPS - dropped))


def _draws_bits(x: Tensor) -> bool:
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


class Dropout(nn.Module):
    """:func:`dropout` as a module: active in training mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return dropout(x, self.probability, training=self.training)
