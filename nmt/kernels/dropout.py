"""Dropout (section 5.4), with masks that cost little on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_STEPS = 1 << 16


def dropout(x: Tensor, probability: float, *, training: bool) -> Tensor:
    """Zero each number with a probability and scale the others up, so that the mean stays; the identity in eval mode.

    On a CPU torch draws a float for each number, which takes more than a tenth of the training time; see
    :func:`keep_mask` for what is done instead.
    """
    if not training or probability == 0.0:
        return x
    if not _draws_bits(x):
        return F.dropout(x, probability)
    return x * keep_mask(x, probability)


def keep_mask(x: Tensor, probability: float) -> Tensor:
    """What :func:`dropout` multiplies ``x`` by: 0 or the scale, in its shape and type.

    On a CPU one draw of 64 bits decides over four numbers: the probability is kept to 1/65,536, the scale matches it
    exactly. The bits come from a generator of numpy's, twice as fast as torch's own, which only draws its seed.
    """
    if not _draws_bits(x):
        return F.dropout(torch.ones_like(x), probability)
    dropped = round(probability * _STEPS)
    generator = np.random.SFC64(int(torch.randint(2**63 - 1, ())))
    bits = torch.from_numpy(generator.random_raw(-(-x.numel() // 4)).view(np.int16))
    draws = bits[: x.numel()].view(x.shape)
    # The comparison writes 0 and 1 in the type of x, where a cast would take longer than all the rest.
    keep = torch.ge(draws, dropped - _STEPS // 2, out=torch.empty(x.shape, dtype=x.dtype))
    return keep.mul_(_STEPS / (_STEPS - dropped))


def _draws_bits(x: Tensor) -> bool:
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


class Dropout(nn.Module):
    """:func:`dropout` as a module, which knows whether it trains."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return dropout(x, self.probability, training=self.training)
