"""Adam (section 5.3), and a step of it that an infinite gradient cannot spoil."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig


def make_optimizer(parameters: Sequence[nn.Parameter], settings: OptimizerConfig) -> torch.optim.Adam:
    """Adam with its moments in place, in one fused pass where the device has it."""
    device = parameters[0].device
    fused = device.type in ("cpu", "cuda")
    betas = (settings.beta1, settings.beta2)
    optimizer = torch.optim.Adam(parameters, lr=0.0, betas=betas, eps=settings.epsilon, fused=fused)
    for parameter in parameters:
        optimizer.state[parameter] = {
            "step": torch.zeros((), dtype=torch.float32, device=device if fused else "cpu"),
            "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
        }
    return optimizer


def step(optimizer: torch.optim.Adam, norm: Tensor, learning_rate: float) -> None:
    """Make one step; parameters and moments stay as they are where the gradients' norm is not finite."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    if optimizer.defaults["fused"]:
        # The kernel itself changes nothing where this is 1, so the host need not wait for the norm.
        optimizer.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
        optimizer.step()
    elif math.isfinite(norm.item()):
        optimizer.step()


def moments(optimizer: torch.optim.Adam, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """Adam's moments by name of the parameter: ``exp_avg.NAME`` and ``exp_avg_sq.NAME``."""
    return {
        f"{moment}.{name}": optimizer.state[parameter][moment]
        for name, parameter in parameters.items()
        for moment in ("exp_avg", "exp_avg_sq")
    }
