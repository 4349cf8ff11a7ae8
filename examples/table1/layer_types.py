"""The four types of layers that table 1 compares, each a function of one sequence of vectors.

Shapes: n positions, d numbers each; a sequence is (1, n, d). The projections of attention are left out, as in the
table: they take O(n · d²).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.kernels.policy import choose_kernels
from nmt.model.attention import attention
from nmt.model.masks import AdditiveMask, PaddedMask
from nmt.model.variants import source_neighbourhood

Layer = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerType:
    """A row of table 1."""

    name: str
    complexity: str
    """As the paper has it."""
    exponent_n: int
    """Of n, in the complexity."""
    exponent_d: int
    make: Callable[[int, int], Layer]
    """The layer for n positions of d numbers."""


def self_attention(n: int, d: int) -> Layer:
    """Every position attends to every other."""
    return _attention(n, None)


def restricted_self_attention(neighbours: int) -> Callable[[int, int], Layer]:
    """Every position attends to so many on either side."""
    return lambda n, d: _attention(n, neighbours)


def recurrent(n: int, d: int) -> Layer:
    """Each state is computed from the one before it, by gated recurrent units."""
    layer = nn.GRU(d, d, batch_first=True)
    return lambda x: layer(x)[0]


def convolutional(kernel: int) -> Callable[[int, int], Layer]:
    """Each position sees so many neighbouring ones, itself in the middle."""

    def make(n: int, d: int) -> Layer:
        layer = nn.Conv1d(d, d, kernel, padding=kernel // 2)
        return lambda x: layer(x.transpose(1, 2)).transpose(1, 2)

    return make


def self_attention_mask(nothing_111N: Tensor, neighbours: int | None) -> PaddedMask:
    """The mask of self-attention over a sequence without padding: over all of it, or over a neighbourhood.

    Args:
        nothing_111N: a zero for each position.
    """
    return AdditiveMask(nothing_111N) if neighbours is None else source_neighbourhood(nothing_111N, neighbours)


def _attention(n: int, neighbours: int | None) -> Layer:
    attend = choose_kernels(torch.device("cpu")).attention or attention
    mask = self_attention_mask(torch.zeros(1, 1, 1, n), neighbours)

    def layer(x: Tensor) -> Tensor:
        head = x[:, None]
        return mask.attend(attend, head, head, head, 0.0)[:, 0]

    return layer


def layer_types(neighbours: int, kernel: int) -> list[LayerType]:
    """The rows of table 1, with r = 2 · ``neighbours`` + 1 and k = ``kernel``."""
    return [
        LayerType("self-attention", "n² · d", 2, 1, self_attention),
        LayerType("recurrent", "n · d²", 1, 2, recurrent),
        LayerType("convolutional", "k · n · d²", 1, 2, convolutional(kernel)),
        LayerType("self-attention (restricted)", "r · n · d", 1, 1, restricted_self_attention(neighbours)),
    ]
