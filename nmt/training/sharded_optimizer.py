"""Adam whose moments are divided among the ranks.

Each rank keeps the moments of its slice of all parameters, and steps that slice alone; then ranks gather the slices.
Source: "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al. 2020), section 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig
from nmt.training.gradients import ShardedGradientBuffer
from nmt.training.optimizer import MOMENTS, Adam, make_optimizer
from nmt.training.ranks.exchange import Ranks


class ShardedAdam(Adam):
    """Adam over this rank's slice of the parameters, which become views into one tensor."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        settings: OptimizerConfig,
        ranks: Ranks,
        buffer: ShardedGradientBuffer,
    ) -> None:
        """Take parameters whose gradients are in the buffer, in the same order."""
        self._parameters = parameters
        self._ranks = ranks
        self._whole = torch.zeros_like(buffer.whole)
        for parameter, part in zip(parameters.values(), self._parts(self._whole), strict=True):
            part.copy_(parameter.detach())
            parameter.data = part
        self._own = nn.Parameter(buffer.own_slice(self._whole))
        self._own.grad = buffer.sums
        self._adam = make_optimizer([self._own], settings)

    def step(self, norm: Tensor, learning_rate: float) -> None:
        """As :meth:`Adam.step`; then all ranks get the slices of the others."""
        super().step(norm, learning_rate)
        self._ranks.join_slices(self._whole, self._own.detach())

    def moments(self) -> dict[str, Tensor]:
        """As :meth:`Adam.moments`; on the main rank only, in main memory."""
        found: dict[str, Tensor] = {}
        for moment in MOMENTS:
            slices = self._ranks.slices_for_main(self._adam.state[self._own][moment])
            if slices is not None:
                parts = self._parts(torch.cat([own.cpu() for own in slices]))
                found |= {f"{moment}.{name}": part for name, part in zip(self._parameters, parts, strict=True)}
        return found

    def restore(self, moments: Mapping[str, Tensor], updates: int) -> None:
        """As :meth:`Adam.restore`; those that are missing are 0."""
        for moment in MOMENTS:
            whole = torch.zeros_like(self._whole) if self._ranks.is_main else None
            if whole is not None:
                for name, part in zip(self._parameters, self._parts(whole), strict=True):
                    if f"{moment}.{name}" in moments:
                        part.copy_(moments[f"{moment}.{name}"])
            self._ranks.slice_from_main(self._adam.state[self._own][moment], whole)
        self._adam.state[self._own]["step"].fill_(float(updates))

    def _parts(self, whole: Tensor) -> list[Tensor]:
        """The part of each parameter in a tensor of all parameters, with its shape."""
        sizes = [parameter.numel() for parameter in self._parameters.values()]
        parts = torch.split(whole[: sum(sizes)], sizes)
        return [part.view(p.shape) for part, p in zip(parts, self._parameters.values(), strict=True)]
