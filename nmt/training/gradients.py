"""All gradients of a model in one buffer, so that ranks exchange them, with a few figures, in one message."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nmt.training.ranks.exchange import Ranks


class GradientBuffer:
    """The gradients of the trained parameters one after the other, followed by a row of figures.

    Backward passes add to the buffer in place, because each parameter's ``grad`` is a view into it.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], figures: int) -> None:
        """Allocate the buffer, filled with zeros.

        Args:
            parameters: parameters on one device with one dtype.
            figures: the number of figures that are sent with the gradients.
        """
        sizes = [parameter.numel() for parameter in parameters]
        first = parameters[0]
        self._all = torch.zeros(sum(sizes) + figures, dtype=first.dtype, device=first.device)
        self.gradients, self.figures = torch.split(self._all, [sum(sizes), figures])
        for parameter, part in zip(parameters, torch.split(self.gradients, sizes), strict=True):
            parameter.grad = part.view_as(parameter)

    def clear(self) -> None:
        """Set all gradients and figures to zero."""
        self._all.zero_()

    def sum_over(self, ranks: Ranks) -> None:
        """Sum gradients and figures over all ranks."""
        ranks.sum(self._all)

    def norm(self) -> Tensor:
        """The Euclidean norm of all gradients together; infinite or NaN if one of them is."""
        norm: Tensor = torch.linalg.vector_norm(self.gradients)
        return norm
