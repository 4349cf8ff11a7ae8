"""Multi-head scaled dot-product attention (section 3.2), one module used three ways.

Shapes: B batch, T queries (target), S keys (source), D d_model, H heads, K size of a head's queries and keys,
V size of a head's values, W beam.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.dropout import dropout


class Attention(nn.Module):
    """Concat(head_1 .. head_H) W^O over heads softmax(Q K^T / sqrt(d_k)) V (equation 1 and section 3.2.2).

    The projections of queries, keys and values lie in one matrix. Self-attention multiplies by it at once;
    attention over the encoder takes its first rows for the queries and the rest for the memory.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        key_size: int,
        value_size: int,
        *,
        dropout: float,
        bias: bool,
        is_self: bool,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.key_size = key_size
        self.value_size = value_size
        self.dropout = dropout
        self._sizes = [heads * key_size, heads * key_size, heads * value_size]
        self.projection = nn.Linear(d_model, sum(self._sizes), bias=bias)
        self.output = nn.Linear(heads * value_size, d_model, bias=bias)
        self._reset_parameters(is_self)

    def _reset_parameters(self, is_self: bool) -> None:
        # Glorot and Bengio 2010; what is multiplied at once counts as one matrix, as in the authors' code.
        query, key, value = self._sizes
        for rows in torch.split(self.projection.weight, [query + key + value] if is_self else [query, key + value]):
            nn.init.xavier_uniform_(rows)
        nn.init.xavier_uniform_(self.output.weight)
        for bias in (self.projection.bias, self.output.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def project(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys (B, H, T, K) and values (B, H, T, V) of self-attention."""
        query, key, value = torch.split(self.projection(x_BTD), self._sizes, dim=-1)
        return self._split_heads(query), self._split_heads(key), self._split_heads(value)

    def project_query(self, x_BTD: Tensor) -> Tensor:
        """Queries (B, H, T, K) of attention over the encoder."""
        weight, bias = self._projection_rows(0, self._sizes[0])
        return self._split_heads(F.linear(x_BTD, weight, bias))

    def project_memory(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (B, H, S, K) and values (B, H, S, V) of attention over the encoder."""
        weight, bias = self._projection_rows(self._sizes[0], sum(self._sizes))
        key, value = torch.split(F.linear(memory_BSD, weight, bias), self._sizes[1:], dim=-1)
        return self._split_heads(key), self._split_heads(value)

    def _projection_rows(self, start: int, end: int) -> tuple[Tensor, Tensor | None]:
        bias = self.projection.bias
        return self.projection.weight[start:end], None if bias is None else bias[start:end]

    def _split_heads(self, x_BTX: Tensor) -> Tensor:
        return torch.unflatten(x_BTX, -1, (self.heads, -1)).transpose(1, 2)

    def attend(self, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None) -> Tensor:
        """Mix the values by the queries' affinity to the keys; returns (B, T, D).

        Args:
            mask: added to the scores, broadcast to (B, H, T, S): 0 where a query may look, -inf where not.
                No row may be -inf throughout.
        """
        if query_BHTK.is_cuda:
            probability = self.dropout if self.training else 0.0
            mixed_BHTV = F.scaled_dot_product_attention(
                query_BHTK, key_BHSK, value_BHSV, attn_mask=mask, dropout_p=probability
            )
        else:
            # On a CPU two plain products beat the fused kernel at the lengths of sentences.
            scores_BHTS = (query_BHTK * (1 / math.sqrt(self.key_size))) @ key_BHSK.transpose(-1, -2)
            if mask is not None:
                scores_BHTS = scores_BHTS.add_(mask)
            weights_BHTS = torch.softmax(scores_BHTS, dim=-1)
            weights_BHTS = dropout(weights_BHTS, self.dropout, training=self.training)
            mixed_BHTV = weights_BHTS @ value_BHSV
        projected: Tensor = self.output(mixed_BHTV.transpose(1, 2).flatten(2))
        return projected
