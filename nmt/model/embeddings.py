"""Token embeddings, the output projection that shares their matrix, and positions (sections 3.4 and 3.5).

Shapes: N rows, one per piece, D d_model, V target vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.model.positions import fixed_positions
from nmt.special_ids import BOS

ROWS_MULTIPLE = 8


class TokenEmbedding(nn.Module):
    """The matrix that source embeddings, target embeddings and the pre-softmax projection share (section 3.4).

    With ``tied_embeddings: decoder`` the source has a matrix of its own, with ``none`` the projection also.

    The rows of a matrix are rounded up to a multiple of 8, which suits tensor cores. The added rows belong to no piece:
    they are never looked up, and the projection leaves their logits out, so they get neither probability nor smoothing
    mass.

    Args:
        vocab_size: number of target pieces.
        source_vocab_size: number of source pieces.
    """

    def __init__(self, config: ModelConfig, vocab_size: int, source_vocab_size: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.scale = math.sqrt(config.d_model)
        self.starts_with_zeros = config.decoder_start == "zero"
        self.weight = _matrix(vocab_size, config.d_model)
        tied = config.tied_embeddings
        self.source_weight = None if tied == "all" else _matrix(source_vocab_size, config.d_model)
        self.output_weight = _matrix(vocab_size, config.d_model) if tied == "none" else None
        self.output_bias = nn.Parameter(torch.zeros(len(self.weight))) if config.output_bias else None

    def source(self, tokens_N: Tensor) -> Tensor:
        """Vectors (N, D) of source pieces, multiplied by sqrt(d_model)."""
        weight = self.weight if self.source_weight is None else self.source_weight
        return F.embedding(tokens_N, weight) * self.scale

    def target(self, tokens_N: Tensor) -> Tensor:
        """Vectors (N, D) of target pieces, multiplied by sqrt(d_model)."""
        vectors_ND = F.embedding(tokens_N, self.weight) * self.scale
        return vectors_ND.masked_fill((tokens_N == BOS)[..., None], 0) if self.starts_with_zeros else vectors_ND

    def project(self, x_ND: Tensor) -> Tensor:
        """Logits (N, V) over the target pieces."""
        logits_NX = self.multiply(x_ND)
        return logits_NX if logits_NX.shape[-1] == self.vocab_size else logits_NX[..., : self.vocab_size]

    def multiply(self, x_ND: Tensor) -> Tensor:
        """The product with all rows of the projection: a GPU multiplies matrices of other widths several times as
        slowly. :func:`nmt.kernels.prepacking.prepack` sets another that gives the same."""
        return F.linear(x_ND, self.projection, self.output_bias)

    @property
    def projection(self) -> Tensor:
        """The matrix of the output projection, with the added rows."""
        return self.weight if self.output_weight is None else self.output_weight


def _matrix(vocab_size: int, d_model: int) -> nn.Parameter:
    """A vector per piece, normally distributed, with rows added up to a multiple of 8."""
    weight = nn.Parameter(torch.empty(-(-vocab_size // ROWS_MULTIPLE) * ROWS_MULTIPLE, d_model))
    nn.init.normal_(weight, std=d_model**-0.5)
    return weight


class PositionEmbedding(nn.Module):
    """Adds a vector per position: sinusoidal, or learned as in table 3, row E."""

    weight: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        if (fixed := fixed_positions(config)) is not None:
            self.register_buffer("weight", fixed.to(torch.get_default_dtype()), persistent=False)
        else:
            self.weight = nn.Parameter(torch.empty(config.max_positions, config.d_model))
            nn.init.normal_(self.weight, std=config.d_model**-0.5)

    def forward(self, x_ND: Tensor, positions: int | Tensor) -> Tensor:
        """Add vectors of positions to vectors (N, D).

        Args:
            positions: one of all rows, or each row's (N).
        """
        if isinstance(positions, Tensor):
            return x_ND + F.embedding(positions, self.weight)
        return x_ND + self.weight[positions]
