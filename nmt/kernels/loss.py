"""Label-smoothed cross-entropy over the logits of a large vocabulary, in chunks of rows.

Shapes: N target positions, R rows of a chunk, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nmt.special_ids import PAD

# Numbers per chunk: on a CPU few, to stay in the cache; on other devices many, to launch few kernels.
_CHUNK_ON_CPU, _CHUNK_ELSEWHERE = 1 << 19, 1 << 26


def smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums of the smoothed loss and of the cross-entropy, which carries no gradient, over positions without padding.

    See :func:`nmt.training.loss.label_smoothed_loss` for the formula. The backward pass overwrites the logits with the
    gradient, unless they are a leaf of the graph: keep a copy if you need them afterwards.
    """
    if torch.compiler.is_compiling():
        return _in_a_graph(logits_NV, target_N, smoothing)
    owner = logits_NV if logits_NV._base is None else logits_NV._base
    arguments = logits_NV, target_N, smoothing, not owner.is_leaf
    smoothed, cross_entropy = _SmoothedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return smoothed, cross_entropy


def _in_a_graph(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """The same by torch's own functions, which a compiler fuses.

    No ``torch.where`` with a number, which is a tensor on the host: with one of these, there is no CUDA graph.
    """
    log_p_NV = torch.log_softmax(logits_NV, dim=1, dtype=torch.promote_types(logits_NV.dtype, torch.float32))
    of_gold, cross_entropy = (
        F.nll_loss(log_NV, target_N, ignore_index=PAD, reduction="sum") for log_NV in (log_p_NV, log_p_NV.detach())
    )
    of_all = -log_p_NV.sum(dim=1).masked_fill(target_N == PAD, 0).sum()
    share = smoothing / (logits_NV.shape[1] - 1)
    return (1 - smoothing - share) * of_gold + share * of_all, cross_entropy


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Forward and backward by hand: one pass over the logits each, and no second matrix of their size.

    With q the smoothed target and p = softmax(logits), the loss is logsumexp(logits) - sum(q · logits) and its
    gradient p - q. Both are computed in fp32 or better, for any dtype of the logits.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float, overwrites: bool
    ) -> tuple[Tensor, Tensor]:
        precise = torch.promote_types(logits_NV.dtype, torch.float32)
        log_total_N, gold_N, sum_N = torch.empty(3, len(target_N), dtype=precise, device=logits_NV.device)
        for rows in _chunks(logits_NV):
            logits_RV = logits_NV[rows].to(precise)
            log_total_N[rows] = torch.logsumexp(logits_RV, dim=1)
            gold_N[rows] = logits_RV.gather(1, target_N[rows, None]).squeeze(1)
            sum_N[rows] = logits_RV.sum(dim=1)
        share = smoothing / (logits_NV.shape[1] - 1)
        expected_N = (1 - smoothing - share) * gold_N + share * sum_N
        real_N = target_N != PAD
        ctx.save_for_backward(logits_NV, log_total_N, target_N, real_N)
        ctx.smoothing, ctx.share, ctx.overwrites = smoothing, share, overwrites
        cross_entropy = torch.where(real_N, log_total_N - gold_N, 0).sum()
        ctx.mark_non_differentiable(cross_entropy)
        return torch.where(real_N, log_total_N - expected_N, 0).sum(), cross_entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        logits_NV, log_total_N, target_N, real_N = ctx.saved_tensors
        gradient_NV = logits_NV if ctx.overwrites else torch.empty_like(logits_NV)
        scale_N1 = (gradients[0] * real_N)[:, None]
        gold_N1 = (ctx.share - (1 - ctx.smoothing)) * scale_N1
        for rows in _chunks(logits_NV):
            p_RV = torch.sub(logits_NV[rows], log_total_N[rows, None]).exp_()
            p_RV.sub_(ctx.share).mul_(scale_N1[rows])
            target_R1 = target_N[rows, None]
            # Not scatter_add_, whose order of additions differs on a GPU.
            gradient_NV[rows] = p_RV.scatter_(1, target_R1, p_RV.gather(1, target_R1) + gold_N1[rows])
        return gradient_NV, None, None, None


def _chunks(logits_NV: Tensor) -> Iterator[slice]:
    """The rows of each chunk."""
    size = max(1, (_CHUNK_ON_CPU if logits_NV.device.type == "cpu" else _CHUNK_ELSEWHERE) // logits_NV.shape[1])
    return (slice(start, start + size) for start in range(0, len(logits_NV), size))
