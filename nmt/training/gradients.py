"""All gradients of a model in one piece of memory, so that ranks exchange them, with a few figures, in one message."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.training.ranks.exchange import Ranks


class GradientBuffer:
    """The gradients of the parameters that learn, one after the other, and behind them a row of figures.

    Backward passes add to it in place, since each parameter's ``grad`` is a view into it.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], figures: int) -> None:
        """Make room, all zero.

        Args:
            parameters: all on one device and of one type.
            figures: how many numbers travel with the gradients.
        """
        sizes = [parameter.numel() for parameter in parameters]
        first = parameters[0]
        self._all = torch.zeros(sum(sizes) + figures, dtype=first.dtype, device=first.device)
        self.gradients, self.figures = torch.split(self._all, [sum(sizes), figures])
        for parameter, part in zip(parameters, torch.split(self.gradients, sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def clear(self) -> None:
        """Begin anew."""
        self._all.zero_()

    def sum_over(self, ranks: Ranks) -> None:
        """Add up gradients and figures of all ranks."""
        ranks.sum(self._all)

    def norm(self) -> Tensor:
        """Euclidean norm of all gradients together; infinite or NaN where one of them is."""
        norm: Tensor = torch.linalg.vector_norm(self.gradients)
        return norm
