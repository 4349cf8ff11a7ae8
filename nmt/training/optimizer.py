"""Adam (section 5.3), with a step that an infinite gradient cannot spoil."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig

MOMENTS = ("exp_avg", "exp_avg_sq")


class Adam:
    """Adam over all parameters, in one fused pass where the device has it. Every rank makes the same step."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: OptimizerConfig) -> None:
        """Take parameters on one device by name, with all moments in place and zero."""
        device = next(iter(parameters.values())).device
        fused = device.type in ("cpu", "cuda", "mps")
        betas = (settings.beta1, settings.beta2)
        self._parameters = parameters
        self._adam = torch.optim.Adam(parameters.values(), lr=0.0, betas=betas, eps=settings.epsilon, fused=fused)
        # Only these kernels take account of `found_inf`.
        self._skips_on_device = fused and device.type != "mps"
        for parameter in parameters.values():
            self._adam.state[parameter] = {
                "step": torch.zeros((), dtype=torch.float32, device=device if fused else "cpu"),
                **{moment: torch.zeros_like(parameter, memory_format=torch.preserve_format) for moment in MOMENTS},
            }

    def step(self, norm: Tensor, learning_rate: float) -> None:
        """Make one step; parameters and moments stay as they are where the gradients' norm is not finite."""
        for group in self._adam.param_groups:
            group["lr"] = learning_rate
        if self._skips_on_device:
            # The kernel itself changes nothing where this is 1, so the host need not wait for the norm.
            self._adam.found_inf = (~torch.isfinite(norm)).float()  # type: ignore[attr-defined]
            self._adam.step()
        elif math.isfinite(norm.item()):
            self._adam.step()

    def moments(self) -> dict[str, Tensor]:
        """The moments by name of the parameter: ``exp_avg.NAME`` and ``exp_avg_sq.NAME``."""
        return {
            f"{moment}.{name}": self._adam.state[parameter][moment]
            for name, parameter in self._parameters.items()
            for moment in MOMENTS
        }

    def load_moments(self, moments: Mapping[str, Tensor], updates: int) -> None:
        """Take moments by name; those that are missing stay as they are.

        Args:
            updates: the number of steps that were made.
        """
        for name, tensor in self.moments().items():
            if name in moments:  # a parameter that was frozen until now has none
                tensor.copy_(moments[name])
        for state in self._adam.state.values():
            state["step"].fill_(float(updates))
