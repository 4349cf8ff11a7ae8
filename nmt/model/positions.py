"""The vectors of positions that are not learned: the paper's (section 3.5), and those of other implementations.

Shapes: T positions, D d_model, I pairs of a sine and a cosine (D / 2).
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor

from nmt.config import ModelConfig


def fixed_positions(config: ModelConfig) -> Tensor | None:
    """The vectors of positions that are not learned, (max_positions, D), float64; None where they are weights."""
    if config.positions == "learned":
        return None
    first, end = config.first_position, config.first_position + config.max_positions
    position_T = torch.arange(first, end, dtype=torch.float64)
    match config.positions:
        case "sinusoidal":
            return sinusoids(position_T, config.d_model)
        case "sinusoidal_halves":
            return halves(position_T, rates(config.d_model))
        case "tensor2tensor":
            return halves(position_T, tensor2tensor_rates(config.d_model))
        case _:
            assert_never(config.positions)


def rates(d_model: int) -> Tensor:
    """The rate of each pair of sine and cosine: 10000^(-2i/d_model), (I), float64."""
    return 10_000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)


def sinusoids(position_T: Tensor, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = the cosine (section 3.5); (T, D)."""
    angle_TI = position_T[:, None] * rates(d_model)
    return torch.stack([torch.sin(angle_TI), torch.cos(angle_TI)], dim=-1).flatten(1)


def halves(position_T: Tensor, rate_I: Tensor) -> Tensor:
    """All sines, then all cosines (T, D): the order of Tensor2Tensor, and of most that follow its code."""
    angle_TI = position_T[:, None] * rate_I
    return torch.cat([torch.sin(angle_TI), torch.cos(angle_TI)], dim=1)


def tensor2tensor_rates(d_model: int) -> Tensor:
    """10000^(-i/(d_model/2 - 1)): the rates of the authors' code, and of Marian and fairseq; (I), float64."""
    pairs = d_model // 2
    return 10_000 ** (-torch.arange(pairs, dtype=torch.float64) / (pairs - 1))
