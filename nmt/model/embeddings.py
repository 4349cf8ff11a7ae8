"""Token embeddings, the output projection that shares their matrix, and positions (sections 3.4 and 3.5).

Shapes: B sentences, T positions, D d_model, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.kernels.linear import PrepackedWeight, prepacked

ROWS_MULTIPLE = 8

Positions = Literal["sinusoidal", "learned"]


class TokenEmbedding(nn.Module):
    """The matrix that source embeddings, target embeddings and the pre-softmax projection share (section 3.4).

    Its rows are rounded up to a multiple of 8, which suits tensor cores. The added rows belong to no piece: they are
    never looked up, and the projection leaves their logits out, so they get neither probability nor smoothing mass.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(-(-vocab_size // ROWS_MULTIPLE) * ROWS_MULTIPLE, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)
        self._prepacked: PrepackedWeight | None = None

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Vectors (B, T, D) of pieces, multiplied by sqrt(d_model)."""
        return F.embedding(tokens_BT, self.weight) * self.scale

    def project(self, x_BTD: Tensor) -> Tensor:
        """Logits (B, T, V) over the pieces."""
        if self._prepacked is not None:
            return self._prepacked.multiply(x_BTD)
        # All rows are multiplied: a GPU multiplies matrices of other widths several times as slowly.
        logits_BTX = F.linear(x_BTD, self.weight)
        return logits_BTX if len(self.weight) == self.vocab_size else logits_BTX[..., : self.vocab_size]

    def projection_to(self, pieces_C: Tensor) -> Callable[[Tensor], Tensor]:
        """A function like :meth:`project` that computes the logits of some pieces only (B, T, C)."""
        rows_CD = self.weight[pieces_C]
        if self._prepacked is None:
            return lambda x_BTD: F.linear(x_BTD, rows_CD)
        return self._prepacked.of_rows(rows_CD).multiply

    def prepack(self, dtype: torch.dtype) -> None:
        """Keep a copy of the matrix for :meth:`project`; see :func:`nmt.kernels.linear.prepack`."""
        self._prepacked = prepacked(self._pieces, None, dtype)

    @property
    def _pieces(self) -> Tensor:
        return self.weight if len(self.weight) == self.vocab_size else self.weight[: self.vocab_size]


def sinusoids(length: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = the cosine (section 3.5); (length, D), float64."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    rate = 10_000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    return torch.stack([torch.sin(position * rate), torch.cos(position * rate)], dim=-1).flatten(1)


def fixed_positions(kind: Positions, length: int, d_model: int) -> Tensor | None:
    """The vectors of positions that are not learned, (length, D), float64; None where they are weights."""
    match kind:
        case "sinusoidal":
            return sinusoids(length, d_model)
        case "learned":
            return None
        case _:
            assert_never(kind)


class PositionEmbedding(nn.Module):
    """Adds a vector per position: sinusoidal, or learned as in table 3, row E."""

    weight: Tensor

    def __init__(self, kind: Positions, max_positions: int, d_model: int) -> None:
        super().__init__()
        if (fixed := fixed_positions(kind, max_positions, d_model)) is not None:
            self.register_buffer("weight", fixed.to(torch.get_default_dtype()), persistent=False)
        else:
            self.weight = nn.Parameter(torch.empty(max_positions, d_model))
            nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, x_BTD: Tensor, positions: int | Tensor = 0) -> Tensor:
        """Add the vectors of positions to vectors (B, T, D).

        Args:
            positions: the first one, which the others follow; or each one (T).
        """
        if isinstance(positions, int):
            return x_BTD + self.weight[positions : positions + x_BTD.shape[1]]
        return x_BTD + self.weight[positions]
