"""Linear layers: several matrices in one.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

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
        if (start, end) == (0, self.out_features):
            return F.linear(x_NI, self.weight, self.bias)
        return F.linear(x_NI, self.weight[start:end], None if self.bias is None else self.bias[start:end])
