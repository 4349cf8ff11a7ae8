"""What the scale 1/√d_k is for (section 3.2.1): without it, large scores leave the softmax hardly any gradient."""

from __future__ import annotations

import torch

from nmt.model.attention import attention
from nmt.model.variants import unscaled

_KEYS, _QUERIES = 32, 1_024
SIZES = (8, 16, 32, 64, 128, 256, 512)


def gradient_norms(sizes: tuple[int, ...] = SIZES) -> list[tuple[int, float, float]]:
    """The mean norm of the softmax's gradient by its scores, for each d_k: with the scale, and without it.

    The components of queries and keys are independent, with mean 0 and variance 1, as in the paper's footnote 4.
    """
    torch.manual_seed(0)
    unit_SS = torch.eye(_KEYS, dtype=torch.float64)[None, None]
    norms = []
    for size in sizes:
        query = torch.randn(1, 1, _QUERIES, size, dtype=torch.float64)
        key = torch.randn(1, 1, _KEYS, size, dtype=torch.float64)
        scaled, plain = (compute(query, key, unit_SS, None, 0.0)[0, 0] for compute in (attention, unscaled(attention)))
        norms.append((size, _gradient_norm(scaled), _gradient_norm(plain)))
    return norms


def _gradient_norm(weights_TS: torch.Tensor) -> float:
    jacobian_TSS = torch.diag_embed(weights_TS) - weights_TS[:, :, None] * weights_TS[:, None, :]
    return jacobian_TSS.norm(dim=(1, 2)).mean().item()
