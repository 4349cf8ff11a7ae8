"""Multi-head scaled dot-product attention (section 3.2), one module used three ways.

Shapes: B batch, T queries (target), S keys (source), D d_model, H heads, K size of a head's queries and keys,
V size of a head's values; N and M rows, one for each position of a batch (see nmt/kernels/packing.py).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.kernels.packing import Packing
from nmt.kernels.policy import Kernels
from nmt.model.linear import Linear


def attention_weights(query_BHTK: Tensor, key_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    """How much each query looks at each key (B, H, T, S): softmax(Q K^T / sqrt(d_k)).

    Args:
        mask: added to the scores, broadcast to (B, H, T, S): 0 where a query may look, -inf where not.
            No row may be -inf throughout.
    """
    scores_BHTS = query_BHTK @ key_BHSK.transpose(-1, -2) / math.sqrt(query_BHTK.shape[-1])
    return torch.softmax(scores_BHTS if mask is None else scores_BHTS + mask, dim=-1)


def attention(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V (equation 1), with dropout of the weights; (B, H, T, V)."""
    return F.dropout(attention_weights(query_BHTK, key_BHSK, mask), dropout) @ value_BHSV


class Attention(nn.Module):
    """Concat(head_1 .. head_H) W^O over heads softmax(Q K^T / sqrt(d_k)) V (equation 1 and section 3.2.2).

    The projections of queries, keys and values lie in one matrix. Self-attention multiplies by it at once;
    attention over the encoder takes its first rows for the queries and the rest for the memory.
    """

    def __init__(self, config: ModelConfig, kernels: Kernels, *, is_self: bool) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.attention_dropout
        self._kernel = kernels.attention or attention
        query = key = config.heads * config.key_size
        value = config.heads * config.value_size
        self._sizes = [query, key, value]
        # What is multiplied at once counts as one matrix when it is filled, as in the authors' code.
        ends = [query + key + value] if is_self else [query, query + key + value]
        self.query_key_value = Linear(config.d_model, ends[-1], bias=config.attention_bias, ends=ends)
        self.output = Linear(value, config.d_model, bias=config.attention_bias)

    def project(self, x_ND: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys (B, H, T, K) and values (B, H, T, V) of self-attention, from rows (N, D)."""
        query, key, value = packing.split_heads(self.query_key_value(x_ND), self.heads, self._sizes)
        return query, key, value

    def project_query(self, x_ND: Tensor, packing: Packing) -> Tensor:
        """Queries (B, H, T, K) of attention over the encoder, from rows (N, D)."""
        projected_NX = self.query_key_value.part(x_ND, 0, self._sizes[0])
        [query] = packing.split_heads(projected_NX, self.heads, self._sizes[:1])
        return query

    def project_memory(self, memory_MD: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Keys (B, H, S, K) and values (B, H, S, V) of attention over the encoder, from its rows (M, D)."""
        projected_MX = self.query_key_value.part(memory_MD, self._sizes[0], sum(self._sizes))
        key, value = packing.split_heads(projected_MX, self.heads, self._sizes[1:])
        return key, value

    def forward(
        self, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, packing: Packing
    ) -> Tensor:
        """Mix the values by the queries' affinity to the keys; returns rows (N, D).

        Args:
            mask: as for :func:`attention_weights`.
            packing: of the queries.
        """
        dropout = self.dropout if self.training else 0.0
        mixed_BHTV = self._kernel(query_BHTK, key_BHSK, value_BHSV, mask, dropout)
        projected_ND: Tensor = self.output(packing.merge_heads(mixed_BHTV))
        return projected_ND
