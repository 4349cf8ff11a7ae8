"""Label-smoothed cross-entropy (section 5.4), summed over tokens.

Shapes: N target positions, V vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.kernels.loss import smoothed_cross_entropy
from nmt.special_ids import PAD


class Losses(NamedTuple):
    """Two sums over the target tokens of a batch, in nats."""

    smoothed: Tensor
    """The smoothed loss, which training minimises."""
    cross_entropy: Tensor
    """-log p(gold piece), without smoothing and without a gradient. exp of its mean is the perplexity."""


def label_smoothed_loss(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> Losses:
    """-sum_v q(v) log p(v), summed over the positions whose target is not padding.

    p is the softmax of the logits. The smoothed target q puts 1 - smoothing on the gold piece and smoothing / (V - 1)
    on each other piece, as in the authors' code.

    The backward pass overwrites the logits with the gradient, unless they are a leaf of the graph: keep a copy if you
    need them afterwards.
    """
    return Losses(*smoothed_cross_entropy(logits_NV, target_N, smoothing))


def r_drop_loss(one_NV: Tensor, other_NV: Tensor, target_N: Tensor, smoothing: float, weight: float) -> Losses:
    """Losses of a batch that went through the model twice, with different dropout: half of equation 4 of R-Drop.

    The smoothed loss is the mean over both passes, plus weight / 4 times the Kullback-Leibler divergences of their
    probabilities, one from the other and back. Source: "R-Drop: Regularized Dropout for Neural Networks" (Liang et al.
    2021).

    Args:
        one_NV, other_NV: the logits of both passes.
        weight: α of R-Drop.
    """
    log_p_NV, log_q_NV = _log_softmax(one_NV), _log_softmax(other_NV)
    divergences_N = ((log_p_NV.exp() - log_q_NV.exp()) * (log_p_NV - log_q_NV)).sum(dim=-1)
    divergence = divergences_N.masked_fill(target_N == PAD, 0).sum()
    one, other = (label_smoothed_loss(logits_NV, target_N, smoothing) for logits_NV in (one_NV, other_NV))
    smoothed = (one.smoothed + other.smoothed) / 2 + weight / 4 * divergence
    return Losses(smoothed, (one.cross_entropy + other.cross_entropy) / 2)


def _log_softmax(logits_NV: Tensor) -> Tensor:
    """In fp32 or better, for any dtype of the logits."""
    precise = torch.promote_types(logits_NV.dtype, torch.float32)
    return torch.log_softmax(logits_NV, dim=-1, dtype=precise)


def perplexity(cross_entropy: float) -> float:
    """exp of a mean cross-entropy; infinite where that is too much for a float."""
    return math.exp(cross_entropy) if cross_entropy < 700 else math.inf
