"""Label-smoothed cross-entropy (section 5.4), summed over tokens.

Shapes: N target positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt.model.transformer import PAD


class Losses(NamedTuple):
    """Two sums over the target tokens of a batch, in nats."""

    smoothed: Tensor
    """What training minimises."""
    cross_entropy: Tensor
    """-log p(gold piece), without smoothing; carries no gradient. exp of its mean is the perplexity."""


def label_smoothed_loss(logits_BTV: Tensor, target_BT: Tensor, smoothing: float) -> Losses:
    """Sum the loss over all positions whose target is not padding.

    The smoothed target puts 1 - smoothing on the gold piece and smoothing / (V - 1) on each other, as the authors'
    code has it.
    """
    arguments = logits_BTV.flatten(0, -2), target_BT.flatten(), smoothing
    smoothed, cross_entropy = _SmoothedCrossEntropy.apply(*arguments)  # type: ignore[no-untyped-call]
    return Losses(smoothed, cross_entropy)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Forward and backward by hand: three passes over the logits where log_softmax and its gradient take seven.

    With q the smoothed target and p = softmax(logits), the loss is logsumexp(logits) - sum(q · logits) and its
    gradient p - q.
    """

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        real_N = target_N != PAD
        log_total_N = torch.logsumexp(logits_NV, dim=-1)
        gold_N = logits_NV.gather(1, target_N[:, None]).squeeze(1)
        share = smoothing / (logits_NV.shape[1] - 1)
        expected_N = (1 - smoothing - share) * gold_N
        if smoothing:
            expected_N = expected_N + share * logits_NV.sum(dim=-1)
        ctx.save_for_backward(logits_NV, log_total_N, target_N, real_N)
        ctx.smoothing, ctx.share = smoothing, share
        cross_entropy = torch.where(real_N, log_total_N - gold_N, 0).sum()
        ctx.mark_non_differentiable(cross_entropy)
        return torch.where(real_N, log_total_N - expected_N, 0).sum(), cross_entropy

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits_NV, log_total_N, target_N, real_N = ctx.saved_tensors
        gradient_NV = torch.exp(logits_NV - log_total_N[:, None]).sub_(ctx.share)
        gold = ctx.share - (1 - ctx.smoothing)
        gradient_NV.scatter_add_(1, target_N[:, None], gradient_NV.new_full((len(target_N), 1), gold))
        return gradient_NV.mul_((gradients[0] * real_N)[:, None]), None, None
