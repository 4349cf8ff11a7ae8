"""Fused attention of a CUDA GPU: which of torch's kernels it takes, and what these compute.

A CPU build of torch has neither. The rules are those of torch for Hopper where cuDNN's attention is off, as our code
switches it off.

Shapes: B batch, H heads, T queries, S keys, K size of a head; N and M rows of all sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_plain = F.scaled_dot_product_attention
_aten = torch.ops.aten


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """As torch's function, with the kernels of a GPU for tensors on a GPU."""
    if query.device.type != "cuda":
        return _plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)
    if torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        attn_mask = attn_mask.to(dtype) if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -torch.inf)
    is_16_bit = query.dtype in (torch.float16, torch.bfloat16)
    multiple = 8 if is_16_bit else 4
    sizes = query.shape[-1], value.shape[-1]
    if query.dim() == 4 and is_16_bit and attn_mask is None and sizes[0] == sizes[1] <= 256 and not sizes[0] % 8:
        return _aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if query.dim() < 4 or query.dtype == torch.float64 or any(size % multiple for size in sizes):
        return _aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale
        )[0]
    if attn_mask is not None:
        assert attn_mask.dtype == query.dtype, "invalid dtype for bias - should match query's dtype"
        attn_mask = _aligned(attn_mask, *query.shape[:3], key.shape[2])
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    return _aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, learns, dropout_p, is_causal, scale=scale
    )[0]


def _aligned(mask: Tensor, *shape: int) -> Tensor:
    """The mask with rows that begin at multiples of 8 numbers: a copy if it has none."""
    if any(stride % 8 for stride in mask.stride()[:-1]) or mask.storage_offset() % 8:
        mask = F.pad(mask, (0, -mask.shape[-1] % 8))[..., : mask.shape[-1]]
    return mask.expand(shape)


def _attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    return _weights(query, key, mask, scale) @ value.float()


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    scores = query.float() @ key.float().transpose(-1, -2) * (scale or 1 / math.sqrt(query.shape[-1]))
    return torch.softmax(scores if mask is None else scores + mask, dim=-1)


def _gradients(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    weights = _weights(query, key, mask, scale)
    of_weights = gradient.float() @ value.float().transpose(-1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(dim=-1, keepdim=True))
    of_scores = of_scores * (scale or 1 / math.sqrt(query.shape[-1]))
    of_value = weights.transpose(-1, -2) @ gradient.float()
    return of_scores @ key.float(), of_scores.transpose(-1, -2) @ query.float(), of_value


def _efficient(query, key, value, mask, learns, dropout=0.0, is_causal=False, *, scale=None) -> Sequence[Tensor]:
    return [_attended(query, key, value, mask, scale).to(query.dtype)]


def _efficient_backward(
    gradient, query, key, value, mask, out, sums, seed, offset, dropout, needs, is_causal=False, *, scale=None
) -> Sequence[Tensor]:
    return [x.to(query.dtype) for x in _gradients(gradient, query, key, value, mask, scale)]


def _flash(query, key, value, dropout=0.0, is_causal=False, *, scale=None) -> Sequence[Tensor]:
    return [_attended(query, key, value, _causal(query, key) if is_causal else None, scale).to(query.dtype)]


def _causal(query: Tensor, key: Tensor) -> Tensor:
    """Queries and keys are aligned at their ends."""
    shape = query.shape[-2], key.shape[-2]
    return torch.full(shape, -torch.inf).triu(1 + shape[1] - shape[0])


def _sentences(ends_Q: Tensor, ends_K: Tensor) -> list[tuple[slice, slice]]:
    queries, keys = ends_Q.tolist(), ends_K.tolist()
    return [
        (slice(a, b), slice(c, d))
        for a, b, c, d in zip(queries, queries[1:], keys, keys[1:], strict=False)
        if b > a and d > c
    ]


def _varlen(query, key, value, ends_Q, ends_K, longest_Q, longest_K, is_causal=False, scale=None, *rest):
    out = torch.zeros_like(query)
    for queries, keys in _sentences(ends_Q, ends_K):
        q, k, v = (x.transpose(0, 1) for x in (query[queries], key[keys], value[keys]))
        out[queries] = _attended(q, k, v, _causal(q, k) if is_causal else None, scale).transpose(0, 1).to(out.dtype)
    return [out]


def _varlen_backward(
    gradient, query, key, value, out, sums, ends_Q, ends_K, longest_Q, longest_K, is_causal, seed, scale=None, *rest
):
    of_query, of_key, of_value = (torch.zeros_like(x) for x in (query, key, value))
    for queries, keys in _sentences(ends_Q, ends_K):
        g, q, k, v = (x.transpose(0, 1) for x in (gradient[queries], query[queries], key[keys], value[keys]))
        mask = _causal(q, k) if is_causal else None
        for whole, rows, part in zip(
            (of_query, of_key, of_value), (queries, keys, keys), _gradients(g, q, k, v, mask, scale), strict=True
        ):
            whole[rows] = part.transpose(0, 1).to(whole.dtype)
    return [of_query, of_key, of_value]


def _ours(query, key, value, ends_Q, ends_K, is_causal):
    return _varlen(query, key, value, ends_Q, ends_K, 0, 0, is_causal)


def _ours_backward(gradient, out, sums, query, key, value, ends_Q, ends_K, is_causal):
    return _varlen_backward(gradient, query, key, value, out, sums, ends_Q, ends_K, 0, 0, is_causal, None)


def _packed_operations() -> dict[Any, Any]:
    found = {}
    try:
        from torch.nn.attention import varlen  # noqa: F401

        theirs = torch.ops.torch_attn
        found |= {theirs._varlen_attn.default: _varlen, theirs._varlen_attn_backward.default: _varlen_backward}
    except ImportError:  # torch < 2.10
        pass
    try:
        from nmt.kernels import sentence_attention  # noqa: F401

        ours = torch.ops.nmt
        found |= {ours.sentence_attention.default: _ours, ours.sentence_attention_backward.default: _ours_backward}
    except ImportError:  # no Triton
        pass
    return found


COMPUTED_ON_HOST: dict[Any, Any] = {
    _aten._scaled_dot_product_efficient_attention.default: _efficient,
    _aten._scaled_dot_product_efficient_attention_backward.default: _efficient_backward,
    _aten._scaled_dot_product_flash_attention.default: _flash,
} | _packed_operations()
"""What a CPU computes in the place of kernels that it does not have: the first results; the others are zero."""
