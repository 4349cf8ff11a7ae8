"""Linear layers: several matrices in one, and their adapters.

Shapes: N rows, I features in, O features out, R rank of an adapter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """x W^T + b for all output features or some of them; weights by Glorot and Bengio (2010), biases 0.

    Args:
        ends: where each part of the features ends; by default there is one part. Each part is initialised as a matrix
            of its own.
    """

    __call__: Callable[..., Tensor]

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, ends: Sequence[int] = ()) -> None:
        self.ends = ends or [out_features]
        super().__init__(in_features, out_features, bias=bias)
        self.adapter: Adapter | None = None
        """Learns in place of the weights; see :func:`nmt.model.adapters.add_adapters`."""

    def reset_parameters(self) -> None:
        """Initialise the weights."""
        for rows_OI in torch.tensor_split(self.weight, self.ends[:-1]):
            nn.init.xavier_uniform_(rows_OI)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x_NI: Tensor) -> Tensor:
        """(N, I) to (N, O)."""
        return self.part(x_NI, 0, self.out_features)

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """Only the features from ``start`` to ``end``, which must be one of the parts."""
        weight_OI: Tensor = self.weight
        bias_O: Tensor | None = self.bias
        if (start, end) != (0, self.out_features):
            weight_OI, bias_O = weight_OI[start:end], None if bias_O is None else bias_O[start:end]
        y_NO = F.linear(x_NI, weight_OI, bias_O)
        return y_NO if self.adapter is None else y_NO + self.adapter(x_NI, start, end)


class Adapter(nn.Module):
    """x A^T B^T, which is added to x W^T; B is 0 until it learns (Hu et al. 2021, section 4.1, with alpha = R)."""

    __call__: Callable[..., Tensor]

    def __init__(self, in_features: int, out_features: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(rank, in_features))
        self.up = nn.Parameter(torch.zeros(out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))  # as in the authors' code

    def forward(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """(N, I) to the features from ``start`` to ``end``."""
        return F.linear(F.linear(x_NI, self.down), self.up[start:end])
