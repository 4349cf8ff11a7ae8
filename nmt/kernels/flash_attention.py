"""Attention within packed sequences, without padding.

Shapes: N and M rows, one per piece of all sentences; H heads, K size of a head.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.model.packing import PackedAttention, PackedSequences, PackedSize

_LARGEST_HEAD, _HEAD_MULTIPLE = 256, 8
"""The sizes of a head that flash attention takes."""


def masked_attention(
    query_NHK: Tensor,
    key_MHK: Tensor,
    value_MHK: Tensor,
    queries: PackedSequences,
    keys: PackedSequences,
    is_causal: bool,
) -> Tensor:
    """The plain form of :func:`flash_attention`, which computes the scores of all rows and masks those of others."""
    allowed_NM = _sentences(queries)[:, None] == _sentences(keys)
    if is_causal:
        allowed_NM = allowed_NM & (keys.positions_N <= queries.positions_N[:, None])
    query_HNK, key_HMK, value_HMK = (x.transpose(0, 1) for x in (query_NHK, key_MHK, value_MHK))
    return F.scaled_dot_product_attention(query_HNK, key_HMK, value_HMK, attn_mask=allowed_NM).transpose(0, 1)


def _sentences(sequences: PackedSequences) -> Tensor:
    """The number of each row's sentence."""
    ends = sequences.cu_seqlens
    rows = torch.arange(len(sequences.tokens_N), dtype=torch.int32, device=ends.device)
    return torch.searchsorted(ends, rows, right=True)


@cache
def flash_attention() -> PackedAttention | None:
    """torch's flash attention over sentences of different lengths, in bf16 or fp16 on a GPU; None before torch 2.10."""
    try:
        # Only here, since this imports torch.compile: two seconds that a CPU has no use for.
        from torch.nn.attention import varlen
    except ImportError:
        return None
    # torch 2.10 has an argument of another name.
    has_window = "window_size" in varlen.varlen_attn.__annotations__
    only_before: dict[str, Any] = {"window_size": (-1, 0)} if has_window else {"is_causal": True}

    def attend(
        query_NHK: Tensor,
        key_MHK: Tensor,
        value_MHK: Tensor,
        queries: PackedSequences,
        keys: PackedSequences,
        is_causal: bool,
    ) -> Tensor:
        ends = queries.cu_seqlens, keys.cu_seqlens, queries.max_seqlen, keys.max_seqlen
        mixed_NHK = varlen.varlen_attn(query_NHK, key_MHK, value_MHK, *ends, **(only_before if is_causal else {}))
        return cast(Tensor, mixed_NHK)

    return attend


def try_attention(attend: PackedAttention, device: torch.device, dtype: torch.dtype) -> None:
    """Compute a small attention and its gradients."""
    with torch.inference_mode(False), torch.enable_grad():
        rows = PackedSequences.of(np.ones(8, np.int64), [8], PackedSize(8, 1, 8)).to(device)
        heads = torch.zeros(8, 1, 64, dtype=dtype, device=device, requires_grad=True)
        attend(heads, heads, heads, rows, rows, True).sum().backward()  # type: ignore[no-untyped-call]


def suits_packed_attention(config: ModelConfig) -> bool:
    """Whether attention without padding is that of these settings, by flash attention or the kernel for sentences."""
    return (
        config.attention == "scaled_dot_product"
        and not config.attention_dropout
        and config.source_neighbours is None
        and config.target_neighbours is None
        and config.source_eos
        and config.key_size == config.value_size
        and config.key_size <= _LARGEST_HEAD
        and config.key_size % _HEAD_MULTIPLE == 0
    )
