"""Multi-head scaled dot-product attention (section 3.2), one module used in three ways.

Shapes: B sentences, T queries (target), S keys (source), D d_model, H heads, K size of a head's queries and keys,
V size of a head's values; N target and M source rows, one per piece of all sentences (nmt/model/packing.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.model.linear import Linear
from nmt.model.masks import Attention, Mask
from nmt.model.variants import AdditiveAttention, unscaled


def attention_weights(query_BHTK: Tensor, key_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """The weight of each key for each query (B, H, T, S): softmax(Q K^T / sqrt(d_k)).

    Args:
        mask: added to the scores, broadcast to (B, H, T, S); see :func:`~nmt.model.masks.additive_mask`.
    """
    scores_BHTS = query_BHTK @ key_BHSK.transpose(-1, -2) / math.sqrt(query_BHTK.shape[-1])
    return torch.softmax(scores_BHTS if mask is None else scores_BHTS + mask, dim=-1)


def attention(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V (equation 1), with dropout of the weights; (B, H, T, V)."""
    return F.dropout(attention_weights(query_BHTK, key_BHSK, mask), dropout) @ value_BHSV


def choose_attention(config: ModelConfig, dot_product: Attention = attention) -> Attention:
    """The attention that the settings name, by a form of equation 1 where it has dot products."""
    match config.attention:
        case "scaled_dot_product":
            return dot_product
        case "dot_product":
            return unscaled(dot_product)
        case "additive":
            return AdditiveAttention(config.heads, config.key_size)
        case _:
            assert_never(config.attention)


class MultiHeadAttention(nn.Module):
    """Concat(head_1 .. head_H) W^O, each head an attention over its own projections (section 3.2.2).

    The projections of queries, keys and values lie in one matrix. Self-attention multiplies by it at once; attention
    over the encoder takes its first rows for the queries and the rest for the memory.
    """

    __call__: Callable[..., Tensor]

    def __init__(self, config: ModelConfig, *, is_self: bool) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self.attention = choose_attention(config)
        query = key = config.heads * config.key_size
        value = config.heads * config.value_size
        self._sizes = [query, key, value]
        # Projections that are multiplied at once are initialised as one matrix, as in the authors' code.
        ends = [query + key + value] if is_self else [query, query + key + value]
        self.query_key_value = Linear(config.d_model, ends[-1], bias=config.attention_bias, ends=ends)
        self.output = Linear(value, config.d_model, bias=config.attention_bias)

    def project(self, x_ND: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (N, H, K), keys (N, H, K) and values (N, H, V) of self-attention, from rows (N, D)."""
        query, key, value = split_heads(self.query_key_value(x_ND), self.heads, self._sizes)
        return query, key, value

    def project_query(self, x_ND: Tensor) -> Tensor:
        """Queries (N, H, K) of attention over the encoder, from rows (N, D)."""
        [query] = split_heads(self.query_key_value.part(x_ND, 0, self._sizes[0]), self.heads, self._sizes[:1])
        return query

    def project_memory(self, memory_MD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (M, H, K) and values (M, H, V) of attention over the encoder, from its rows (M, D)."""
        projected_MX = self.query_key_value.part(memory_MD, self._sizes[0], sum(self._sizes))
        key, value = split_heads(projected_MX, self.heads, self._sizes[1:])
        return key, value

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Attend and project the heads together, as rows (N, D)."""
        dropout = self.dropout if self.training else 0.0
        heads_NHV = mask.attend(self.attention, query, key, value, dropout)
        return self.output(heads_NHV.flatten(1))


def split_heads(x_NX: Tensor, heads: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Split rows into parts of the given sizes, and each part into its heads (N, H, K)."""
    # The gradient of a split into one part would be a copy.
    parts = torch.split(x_NX, list(sizes), dim=-1) if len(sizes) > 1 else [x_NX]
    return tuple(part.view(-1, heads, part.shape[1] // heads) for part in parts)
