"""Label-smoothed cross-entropy (section 5.4), summed over tokens.

Shapes: B sentences, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor

from nmt.kernels.loss import smoothed_cross_entropy


class Losses(NamedTuple):
    """Two sums over the target tokens of a batch, in nats."""

    smoothed: Tensor
    """The smoothed loss, which training minimises."""
    cross_entropy: Tensor
    """-log p(gold piece), without smoothing and without a gradient. exp of its mean is the perplexity."""


def label_smoothed_loss(logits_BTV: Tensor, target_BT: Tensor, smoothing: float) -> Losses:
    """-sum_v q(v) log p(v), summed over the positions whose target is not padding.

    p is the softmax of the logits. The smoothed target q puts 1 - smoothing on the gold piece and smoothing / (V - 1)
    on each other piece, as in the authors' code.

    The backward pass overwrites the logits with the gradient, unless they are a leaf of the graph: keep a copy if you
    need them afterwards.
    """
    return Losses(*smoothed_cross_entropy(logits_BTV.flatten(0, -2), target_BT.flatten(), smoothing))


def perplexity(cross_entropy: float) -> float:
    """exp of a mean cross-entropy; infinite where that is too much for a float."""
    return math.exp(cross_entropy) if cross_entropy < 700 else math.inf
