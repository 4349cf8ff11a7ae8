"""Dropout (section 5.4), with masks that cost little on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_STEPS = 1 << 16


def dropout(x: Tensor, probability: float, *, training: bool) -> Tensor:
    """Zero each number with a probability and scale the others up, so that the mean stays; the identity in eval mode.

    On a CPU torch draws a float for each number, which takes more than a tenth of the training time. Here one draw of
    64 bits decides over four numbers: the probability is kept to 1/65,536, the scale matches it exactly.
    """
    if not training or probability == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    return x * keep_mask(x, probability)


def keep_mask(x: Tensor, probability: float) -> Tensor:
    """What :func:`dropout` multiplies ``x`` by: 0 or the scale, in its shape and type."""
    if x.device.type != "cpu":
        return F.dropout(torch.ones_like(x), probability)
    dropped = round(probability * _STEPS)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    draws = bits.view(torch.int16)[: x.numel()].view(x.shape)
    return (draws >= dropped - _STEPS // 2).to(x.dtype).mul_(_STEPS / (_STEPS - dropped))


class Dropout(nn.Module):
    """:func:`dropout` as a module, which knows whether it trains."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return dropout(x, self.probability, training=self.training)
