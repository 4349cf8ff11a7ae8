"""How fast training is on one GPU of this machine, on several and on all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.device import Hardware
from nmt.doctor.rank_processes import output_of_main_rank
from nmt.doctor.steps import impersonal
from nmt.errors import NmtError

_UPDATES = 10
_SECONDS = 300.0
# The paper's update, whose shares are small on many GPUs, and a larger one.
_TASKS = [(preset, tokens) for preset in ("base", "big") for tokens in (25_000, 100_000)]


@dataclass(frozen=True)
class ScalingSpeed:
    """Target tokens per second of several ranks that train together."""

    preset: str
    update_tokens: int
    """Target tokens per update, over all ranks."""
    ranks: int
    tokens_per_second: float
    efficiency: float | None
    """The speed per rank, divided by the speed of one rank; None if that could not be measured."""


def numbers_of_gpus(hardware: Hardware) -> list[int]:
    """The numbers of GPUs to train on: 1, 2, 4 … and all; none if there is one GPU at most."""
    gpus = torch.cuda.device_count() if hardware.device.type == "cuda" else 0
    powers = [1 << exponent for exponent in range(gpus.bit_length())]
    return sorted({*powers, gpus}) if gpus > 1 else []


def scaling_speeds(
    data: Path,
    numbers: Sequence[int],
    left_out: list[str],
    *,
    device: str = "cuda",
    updates: int = _UPDATES,
    tasks: Sequence[tuple[str, int]] = tuple(_TASKS),
) -> list[ScalingSpeed]:
    """Train with each number of ranks. If it fails with one number, the others are measured all the same.

    Args:
        numbers: of ranks, beginning with 1.
        left_out: a line is added for each number with which it failed.
        tasks: presets, and target tokens per update.
    """
    words = [f"{preset}:{tokens}" for preset, tokens in tasks]
    speeds: list[ScalingSpeed] = []
    rate_of_one: dict[tuple[str, int], float] = {}
    arguments = ["nmt.doctor.scaling_worker", str(data), device, str(updates), *words]
    for ranks in numbers:
        try:
            measured = json.loads(output_of_main_rank(arguments, ranks, seconds=_SECONDS))
        except (NmtError, OSError, ValueError) as error:
            left_out.append(f"training on {ranks} {'GPU' if ranks == 1 else 'GPUs'}: {impersonal(str(error))}")
            continue
        for preset, tokens, rate in measured:
            if ranks == 1:
                rate_of_one[preset, tokens] = rate
            one = rate_of_one.get((preset, tokens))
            speeds.append(ScalingSpeed(preset, tokens, ranks, rate, None if one is None else rate / one / ranks))
    return speeds
