"""The linear layer of all projections.

Shapes: N rows, I features in, O features out.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """x W^T + b, all features at once or a part of them alone; weights by Glorot and Bengio (2010), biases 0.

    Args:
        ends: where each part of the features ends. Each part is a matrix of its own when it is filled.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True, ends: Sequence[int] = ()) -> None:
        self.ends = ends or [out_features]
        super().__init__(in_features, out_features, bias=bias)

    def reset_parameters(self) -> None:
        """Fill the weights."""
        for rows_OI in torch.tensor_split(self.weight, self.ends[:-1]):
            nn.init.xavier_uniform_(rows_OI)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def part(self, x_NI: Tensor, start: int, end: int) -> Tensor:
        """The features from ``start`` to ``end`` alone."""
        return F.linear(x_NI, self.weight[start:end], None if self.bias is None else self.bias[start:end])
