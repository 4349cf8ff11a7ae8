"""Encoder and decoder layers (section 3.1) and the feed-forward network inside them (section 3.3).

Shapes: B sentences, S source, T target, D d_model; N target and M source rows (see packing.py).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.model.attention import Attention
from nmt.model.dropout import Dropout
from nmt.model.linear import LaidOutLinear, Linear
from nmt.model.packing import Packing


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, at each position alike (equation 2)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        inner, outer = Linear(d_model, d_ff), Linear(d_ff, d_model)
        for linear in (inner, outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.inner: Linear | LaidOutLinear = inner
        self.outer: Linear | LaidOutLinear = outer
        self.dropout = Dropout(dropout)

    def lay_out(self, dtype: torch.dtype) -> None:
        """Keep the weights as :meth:`Transformer.lay_out` says."""
        self.inner, self.outer = LaidOutLinear(self.inner, dtype), LaidOutLinear(self.outer, dtype)

    def forward(self, x_ND: Tensor) -> Tensor:
        """(N, D) to (N, D)."""
        hidden_NF = F.relu(self.inner(x_ND), inplace=True)
        projected: Tensor = self.outer(self.dropout(hidden_NF))
        return projected


class Residual(nn.Module):
    """What stands around every sub-layer: LayerNorm(x + Dropout(f(x))); pre-norm: x + Dropout(f(LayerNorm(x)))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.d_model, eps=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)

    def forward(self, x_ND: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """(N, D) to (N, D)."""
        result: Tensor
        if self.is_pre:
            result = x_ND + self.dropout(sublayer(self.norm(x_ND)))
        else:
            result = self.norm(x_ND + self.dropout(sublayer(x_ND)))
        return result


def _attention(config: ModelConfig, *, is_self: bool) -> Attention:
    return Attention(
        config.d_model,
        config.heads,
        config.key_size,
        config.value_size,
        dropout=config.attention_dropout,
        bias=config.attention_bias,
        is_self=is_self,
    )


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config, is_self=True)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation_dropout)
        self.around_self_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(self, x_MD: Tensor, mask: Tensor | None, packing: Packing) -> Tensor:
        """(M, D) to (M, D); ``mask`` as in :meth:`Attention.attend`."""

        def attend(x_MD: Tensor) -> Tensor:
            return self.self_attention.attend(*self.self_attention.project(x_MD, packing), mask, packing)

        x_MD = self.around_self_attention(x_MD, attend)
        result: Tensor = self.around_feed_forward(x_MD, self.feed_forward)
        return result


class DecoderLayer(nn.Module):
    """Self-attention over what was written, attention over the encoder, then feed-forward.

    Attention to self and memory comes as functions, since a whole target and a single step with cached keys and
    values differ in nothing else.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config, is_self=True)
        self.cross_attention = _attention(config, is_self=False)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation_dropout)
        self.around_self_attention = Residual(config)
        self.around_cross_attention = Residual(config)
        self.around_feed_forward = Residual(config)

    def forward(
        self,
        x_ND: Tensor,
        attend_self: Callable[[Tensor], Tensor],
        attend_memory: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """(N, D) to (N, D)."""
        x_ND = self.around_self_attention(x_ND, attend_self)
        x_ND = self.around_cross_attention(x_ND, attend_memory)
        result: Tensor = self.around_feed_forward(x_ND, self.feed_forward)
        return result
