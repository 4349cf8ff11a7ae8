"""The longest path between two positions: the operations, one after the other, that a signal has to pass.

Measured by gradients: operations are added until the gradient of the last position reaches the first one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from layer_types import self_attention_mask
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.errors import ConfigError
from nmt.model.attention import attention

_WIDTH = 4
Stack = Callable[[Tensor, int], Tensor]
"""A sequence (1, n, d) after so many operations in a row."""


def longest_path(stack: Stack, n: int) -> int:
    """The fewest operations after which the last position depends on the first one.

    Raises:
        ConfigError: the gradient is lost in so many operations.
    """
    torch.manual_seed(0)
    x = torch.randn(1, n, _WIDTH, dtype=torch.float64, requires_grad=True)
    # Every operation more reaches further, so the fewest that suffice are found by halving.
    few, many = 0, 2 * n
    if not _reaches(stack, x, many):
        raise ConfigError(f"--length {n}: the gradient is lost in {many:,} operations. Give a shorter length.")
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _reaches(stack, x, middle) else (middle, many)
    return many


def _reaches(stack: Stack, x: Tensor, operations: int) -> bool:
    [gradient] = torch.autograd.grad(stack(x, operations)[0, -1].sum(), x)
    return bool(gradient[0, 0].abs().max() > 0)


def stacked_attention(neighbours: int | None) -> Stack:
    """Layers of self-attention, one above the other."""

    def stack(x: Tensor, operations: int) -> Tensor:
        mask = self_attention_mask(x.new_zeros(1, 1, 1, x.shape[1]), neighbours)
        for _ in range(operations):
            head = x[:, None]
            x = mask.attend(attention, head, head, head, 0.0)[:, 0]
        return x

    return stack


def stacked_convolutions(kernel: int) -> Stack:
    """Layers of convolutions, one above the other; each position is in the middle of those that it sees."""

    def stack(x: Tensor, operations: int) -> Tensor:
        torch.manual_seed(0)
        features = x.transpose(1, 2)
        for _ in range(operations):
            features = nn.Conv1d(_WIDTH, _WIDTH, kernel, padding=kernel // 2, dtype=x.dtype)(features)
        return features.transpose(1, 2)

    return stack


def dilated_convolutions(kernel: int) -> Stack:
    """Layers of convolutions that look back, with gaps that grow by the factor ``kernel`` from layer to layer."""

    def stack(x: Tensor, operations: int) -> Tensor:
        torch.manual_seed(0)
        features, gap = x.transpose(1, 2), 1
        for _ in range(operations):
            if gap >= x.shape[1]:  # it would look back beyond the sequence
                break
            convolution = nn.Conv1d(_WIDTH, _WIDTH, kernel, dilation=gap, dtype=x.dtype)
            features = convolution(F.pad(features, ((kernel - 1) * gap, 0)))
            gap *= kernel
        return features.transpose(1, 2)

    return stack


def recurrent_steps(x: Tensor, operations: int) -> Tensor:
    """The states of a recurrent layer that has read only the last ``operations`` positions of each prefix."""
    torch.manual_seed(0)
    cell = nn.GRUCell(_WIDTH, _WIDTH, dtype=x.dtype)
    state = x.new_zeros(1, _WIDTH)
    for position in range(max(0, x.shape[1] - operations), x.shape[1]):
        state = cell(x[:, position], state)
    return state[:, None]
