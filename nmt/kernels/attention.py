"""Attention (equation 1) in the fastest form for each kind of device; the plain form is in nmt/model/attention.py.

Shapes: B batch, H heads, T queries, S keys, K size of a head's queries and keys, V size of a head's values.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.kernels.dropout import keep_mask


def fused_attention(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """torch's fused kernel, which never holds the scores of all pairs at once."""
    return F.scaled_dot_product_attention(query_BHTK, key_BHSK, value_BHSV, attn_mask=mask, dropout_p=dropout)


def cpu_attention(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """The fastest form on a CPU: the fused kernel for inference in bf16, two products for everything else.

    In bf16, oneDNN copies the cached keys and values before it multiplies them by a few queries.
    """
    learns = dropout > 0 or torch.is_grad_enabled()
    # On a CPU, torch has no fused kernel for values of another size than the keys.
    if learns or not is_fused_in_inference(query_BHTK.dtype) or query_BHTK.shape[3] != value_BHSV.shape[3]:
        return two_product_attention(query_BHTK, key_BHSK, value_BHSV, mask, dropout)
    return fused_attention(query_BHTK, key_BHSK, value_BHSV, mask, 0.0)


def is_fused_in_inference(dtype: torch.dtype) -> bool:
    """Whether :func:`cpu_attention` takes the fused kernel for inference.

    In fp32 it does not, though a single sentence would be faster: the fused kernel's rounding depends on the padding,
    and in fp32 a line's translation must not depend on the lines beside it.
    """
    return dtype == torch.bfloat16


def two_product_attention(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSV: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """Two plain products. At the lengths of sentences, a CPU trains faster with them than with the fused kernel."""
    weights_BHTS = _weights(query_BHTK, key_BHSK, mask)
    if dropout:
        weights_BHTS = weights_BHTS * keep_mask(weights_BHTS, dropout)
    return _product(weights_BHTS, value_BHSV)


def _weights(query_BHTK: Tensor, key_BHSK: Tensor, mask: Tensor | None) -> Tensor:
    scores_BHTS = _product(query_BHTK, key_BHSK.transpose(-1, -2)).mul_(1 / math.sqrt(query_BHTK.shape[-1]))
    if mask is not None:
        scores_BHTS.add_(mask)
    # With a dtype, since autocast on a GPU computes it in fp32 otherwise, and the gradient would mix both dtypes.
    return torch.softmax(scores_BHTS, dim=-1, dtype=scores_BHTS.dtype)


def _product(left_BHTX: Tensor, right_BHXS: Tensor) -> Tensor:
    """left @ right, without torch's check whether their numbers of heads are equal, which takes time."""
    product_XTS = torch.bmm(left_BHTX.flatten(0, 1), right_BHXS.flatten(0, 1))
    return product_XTS.view(*left_BHTX.shape[:2], *product_XTS.shape[1:])
