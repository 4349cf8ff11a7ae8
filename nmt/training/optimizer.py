"""Adam (section 5.3), and a step of it that an infinite gradient cannot spoil."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig
from nmt.training.ranks.exchange import Ranks

MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(parameters: Sequence[nn.Parameter], settings: OptimizerConfig) -> torch.optim.Adam:
    """Adam with its moments in place, in one fused pass where the device has it."""
    device = parameters[0].device
    fused = device.type in ("cpu", "cuda", "mps")
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
    if optimizer.defaults["fused"] and norm.device.type != "mps":  # whose kernel takes no account of it
        # The kernel itself changes nothing where this is 1, so the host need not wait for the norm.
        optimizer.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
        optimizer.step()
    elif math.isfinite(norm.item()):
        optimizer.step()


class Adam:
    """Adam over all parameters: every rank holds all moments and makes the same step."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: OptimizerConfig, ranks: Ranks) -> None:
        self._parameters = parameters
        self._ranks = ranks
        self._adam = make_optimizer(list(parameters.values()), settings)

    def step(self, norm: Tensor, learning_rate: float) -> None:
        """As :func:`step`."""
        step(self._adam, norm, learning_rate)

    def moments(self) -> dict[str, Tensor]:
        """The moments by name of the parameter, at least on the main rank: ``exp_avg.NAME`` and ``exp_avg_sq.NAME``.

        Every rank calls this.
        """
        return {
            f"{moment}.{name}": self._adam.state[parameter][moment]
            for name, parameter in self._parameters.items()
            for moment in MOMENTS
        }

    def restore(self, moments: Mapping[str, Tensor], updates: int) -> None:
        """Take the main rank's moments on all ranks; those that are missing stay as they are. Every rank calls this.

        Args:
            updates: the number of steps that were made.
        """
        for name, tensor in self.moments().items():
            if name in moments:  # a parameter that was frozen until now has none
                tensor.copy_(moments[name])
            self._ranks.broadcast(tensor)
        for state in self._adam.state.values():
            state["step"].fill_(float(updates))
