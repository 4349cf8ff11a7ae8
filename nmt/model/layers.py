"""Encoder and decoder layers (section 3.1) and the feed-forward network inside them (section 3.3).

Shapes: D d_model, F d_ff; N target and M source rows, one per piece of all sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.model.attention import MultiHeadAttention
from nmt.model.linear import Linear
from nmt.model.masks import Mask
from nmt.model.state import Past

Sublayer = Callable[[Tensor], Tensor]


def choose_activation(config: ModelConfig) -> Sublayer:
    """The function between the two products of the feed-forward sub-layer; the paper's is relu."""
    match config.activation:
        case "relu":
            return partial(F.relu, inplace=True)
        case "swish":
            return F.silu
        case "gelu":
            return F.gelu
        case "quick_gelu":
            return lambda x: x * torch.sigmoid(1.702 * x)
        case _:
            assert_never(config.activation)


class FeedForward(nn.Module):
    """f(x W1 + b1) W2 + b2, at each position separately (equation 2, where f is relu)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = Linear(config.d_model, config.d_ff)
        self.output = Linear(config.d_ff, config.d_model)
        self.activation = choose_activation(config)
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x_ND: Tensor) -> Tensor:
        """(N, D) to (N, D)."""
        hidden_NF = self.activation(self.inner(x_ND))
        return self.output(self.dropout(hidden_NF))


def layer_norm(config: ModelConfig) -> nn.LayerNorm:
    """LayerNorm over d_model."""
    return nn.LayerNorm(config.d_model, eps=config.norm_epsilon)


class Residual(nn.Module):
    """The connection around a sub-layer f: LayerNorm(x + Dropout(f(x))), or pre-norm: x + Dropout(f(LayerNorm(x)))."""

    __call__: Callable[..., Tensor]

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_pre = config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x_ND: Tensor, norm: Sublayer, sublayer: Sublayer) -> Tensor:
        """(N, D) to (N, D)."""
        change_ND: Tensor = self.dropout(sublayer(norm(x_ND) if self.is_pre else x_ND))
        return x_ND + change_ND if self.is_pre else norm(x_ND + change_ND)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, is_self=True)
        self.feed_forward = FeedForward(config)
        self.self_attention_norm = layer_norm(config)
        self.feed_forward_norm = layer_norm(config)
        self.residual = Residual(config)

    def forward(self, x_MD: Tensor, mask: Mask) -> Tensor:
        """(M, D) to (M, D)."""

        def attend(x_MD: Tensor) -> Tensor:
            return self.self_attention(*self.self_attention.project(x_MD), mask)

        x_MD = self.residual(x_MD, self.self_attention_norm, attend)
        return self.residual(x_MD, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention over the encoder, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(config, is_self=True)
        self.cross_attention = MultiHeadAttention(config, is_self=False)
        self.feed_forward = FeedForward(config)
        self.self_attention_norm = layer_norm(config)
        self.cross_attention_norm = layer_norm(config)
        self.feed_forward_norm = layer_norm(config)
        self.residual = Residual(config)

    def forward(self, x_ND: Tensor, past: Past) -> Tensor:
        """(N, D) to (N, D).

        Args:
            past: the keys and values to attend to. Only this differs between a whole target and a single step.
        """

        def attend_self(x_ND: Tensor) -> Tensor:
            query, key, value = self.self_attention.project(x_ND)
            return self.self_attention(query, *past.extend(key, value))

        def attend_memory(x_ND: Tensor) -> Tensor:
            query = self.cross_attention.project_query(x_ND)
            return self.cross_attention(query, *past.memory(self.cross_attention))

        x_ND = self.residual(x_ND, self.self_attention_norm, attend_self)
        x_ND = self.residual(x_ND, self.cross_attention_norm, attend_memory)
        return self.residual(x_ND, self.feed_forward_norm, self.feed_forward)
