"""Multi-head scaled dot-product attention (section 3.2), one module used three ways.

Shapes: B batch, T queries (target), S keys (source), D d_model, H heads, K size of a head's queries and keys,
V size of a head's values; N and M rows (see packing.py).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.model.dropout import keep_mask
from nmt.model.linear import LaidOutLinear, Linear
from nmt.model.packing import Packing


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
        self.is_self = is_self
        self.heads = heads
        self.key_size = key_size
        self.value_size = value_size
        self.dropout = dropout
        self._sizes = [heads * key_size, heads * key_size, heads * value_size]
        projection = Linear(d_model, sum(self._sizes), bias=bias)
        output = Linear(heads * value_size, d_model, bias=bias)
        self._reset(projection, output)
        self.projection: Linear | LaidOutLinear = projection
        self.output: Linear | LaidOutLinear = output

    def _reset(self, projection: Linear, output: Linear) -> None:
        # Glorot and Bengio 2010; what is multiplied at once counts as one matrix, as in the authors' code.
        query, key, value = self._sizes
        parts = [query + key + value] if self.is_self else [query, key + value]
        for rows in torch.split(projection.weight, parts):
            nn.init.xavier_uniform_(rows)
        nn.init.xavier_uniform_(output.weight)
        for bias in (projection.bias, output.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def lay_out(self, dtype: torch.dtype) -> None:
        """Keep the weights as :meth:`Transformer.lay_out` says."""
        self.projection = LaidOutLinear(self.projection, dtype, None if self.is_self else self._sizes[0])
        self.output = LaidOutLinear(self.output, dtype)

    def project(self, x_ND: Tensor, packing: Packing) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, T, K), keys (B, H, T, K) and values (B, H, T, V) of self-attention, from rows (N, D)."""
        query, key, value = packing.split_heads(self.projection(x_ND), self.heads, self._sizes)
        return query, key, value

    def project_query(self, x_ND: Tensor, packing: Packing) -> Tensor:
        """Queries (B, H, T, K) of attention over the encoder, from rows (N, D)."""
        projected_NX = self.projection.part(x_ND, 0, self._sizes[0])
        [query] = packing.split_heads(projected_NX, self.heads, self._sizes[:1])
        return query

    def project_memory(self, memory_MD: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
        """Keys (B, H, S, K) and values (B, H, S, V) of attention over the encoder, from its rows (M, D)."""
        projected_MX = self.projection.part(memory_MD, self._sizes[0], sum(self._sizes))
        key, value = packing.split_heads(projected_MX, self.heads, self._sizes[1:])
        return key, value

    def attend(
        self, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, packing: Packing
    ) -> Tensor:
        """Mix the values by the queries' affinity to the keys; returns rows (N, D).

        Args:
            mask: added to the scores, broadcast to (B, H, T, S): 0 where a query may look, -inf where not.
                No row may be -inf throughout.
            packing: of the queries.
        """
        probability = self.dropout if self.training else 0.0
        if query_BHTK.is_cuda:
            mixed_BHTV = F.scaled_dot_product_attention(
                query_BHTK, key_BHSK, value_BHSV, attn_mask=mask, dropout_p=probability
            )
        elif torch.is_grad_enabled() or probability:
            # On a CPU plain products beat the fused kernel at the lengths of sentences.
            mixed_BHTV = _PlainAttention.apply(  # type: ignore[no-untyped-call]
                query_BHTK, key_BHSK, value_BHSV, mask, probability
            )
        else:
            mixed_BHTV = _product(self.weights(query_BHTK, key_BHSK, mask), value_BHSV)
        projected: Tensor = self.output(packing.merge_heads(mixed_BHTV))
        return projected

    @staticmethod
    def weights(query_BHTK: Tensor, key_BHSK: Tensor, mask: Tensor | None) -> Tensor:
        """How much each query looks at each key (B, H, T, S), before dropout: softmax(Q K^T / sqrt(d_k)).

        Args:
            mask: as in :meth:`attend`.
        """
        scores_BHTS = _product(query_BHTK, key_BHSK.transpose(-1, -2)).mul_(1 / math.sqrt(query_BHTK.shape[-1]))
        if mask is not None:
            scores_BHTS.add_(mask)
        return torch.softmax(scores_BHTS, dim=-1)


def _product(left_BHTX: Tensor, right_BHXS: Tensor) -> Tensor:
    """left @ right, without the time that torch takes to find out whether they have as many heads."""
    product_XTS = torch.bmm(left_BHTX.flatten(0, 1), right_BHXS.flatten(0, 1))
    return product_XTS.view(*left_BHTX.shape[:2], *product_XTS.shape[1:])


class _PlainAttention(torch.autograd.Function):
    """Equation 1 by two products, with a gradient that comes without the copies that one by parts would make: of
    scaled queries, and of the keys' gradient, which would come transposed."""

    @staticmethod
    def forward(
        ctx: Any, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, probability: float
    ) -> Tensor:
        ctx.scale = 1 / math.sqrt(query_BHTK.shape[-1])
        weights_BHTS = Attention.weights(query_BHTK, key_BHSK, mask)
        kept_BHTS = keep_mask(weights_BHTS, probability) if probability else None
        ctx.save_for_backward(query_BHTK, key_BHSK, value_BHSV, weights_BHTS, kept_BHTS)
        return (weights_BHTS if kept_BHTS is None else weights_BHTS * kept_BHTS) @ value_BHSV

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query_BHTK, key_BHSK, value_BHSV, weights_BHTS, kept_BHTS = ctx.saved_tensors
        mixed_BHTV = gradients[0]
        dropped_BHTS = weights_BHTS if kept_BHTS is None else weights_BHTS * kept_BHTS
        value_gradient = dropped_BHTS.transpose(-1, -2) @ mixed_BHTV
        gradient_BHTS = mixed_BHTV @ value_BHSV.transpose(-1, -2)
        if kept_BHTS is not None:
            gradient_BHTS.mul_(kept_BHTS)
        gradient_BHTS = torch.ops.aten._softmax_backward_data(gradient_BHTS, weights_BHTS, -1, weights_BHTS.dtype)
        gradient_BHTS.mul_(ctx.scale)
        return gradient_BHTS @ key_BHSK, gradient_BHTS.transpose(-1, -2) @ query_BHTK, value_gradient, None, None
