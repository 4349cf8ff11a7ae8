"""The exponential moving average of the weights, which can be validated and saved instead of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """average = decay · average + (1 - decay) · weights, after each update."""

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        """Begin with the parameters as they are."""
        self._parameters = parameters
        self._decay = decay
        self.tensors = [parameter.detach().clone() for parameter in parameters]
        """In the order of the parameters."""

    def update(self) -> None:
        """Move towards the parameters."""
        torch._foreach_lerp_(self.tensors, [parameter.detach() for parameter in self._parameters], 1 - self._decay)

    def restart(self) -> None:
        """Take the parameters' values."""
        for tensor, parameter in zip(self.tensors, self._parameters, strict=True):
            tensor.copy_(parameter.detach())

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the parameters be the average while the body runs."""
        learnt: list[Tensor] = [parameter.data for parameter in self._parameters]
        for parameter, tensor in zip(self._parameters, self.tensors, strict=True):
            parameter.data = tensor
        try:
            yield
        finally:
            for parameter, data in zip(self._parameters, learnt, strict=True):
                parameter.data = data
