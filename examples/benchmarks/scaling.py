"""Training on one rank of this machine, on several and on all GPUs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rank_processes import output_of_main_rank

from nmt.errors import NmtError

UPDATES = 10
_SECONDS = 300.0
_WORKER = Path(__file__).with_name("scaling_worker.py")
# The paper's update, whose shares are small on many GPUs, and a larger one.
TASKS = tuple((preset, tokens) for preset in ("base", "big") for tokens in (25_000, 100_000))


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


def numbers_of_gpus() -> list[int]:
    """The numbers of GPUs to train on: 1, 2, 4 … and all."""
    gpus = torch.cuda.device_count()
    powers = [1 << exponent for exponent in range(gpus.bit_length())]
    return sorted({*powers, gpus} - {0})


def scaling_speeds(
    data: Path,
    numbers: Sequence[int],
    *,
    device: str,
    updates: int = UPDATES,
    tasks: Sequence[tuple[str, int]] = TASKS,
    report: Callable[[str], object],
) -> list[ScalingSpeed]:
    """Train with each number of ranks. If it fails with one number, the others are measured all the same.

    Args:
        numbers: of ranks, beginning with 1.
        tasks: presets, and target tokens per update.
        report: called with a line before each number of ranks, and with the reason where it failed.
    """
    words = [f"{preset}:{tokens}" for preset, tokens in tasks]
    speeds: list[ScalingSpeed] = []
    rate_of_one: dict[tuple[str, int], float] = {}
    for ranks in numbers:
        report(f"ranks: {ranks}")
        program = [str(_WORKER), str(data), device, str(updates), *words]
        try:
            measured = json.loads(output_of_main_rank(program, ranks, seconds=_SECONDS))
        except (NmtError, OSError, ValueError) as error:
            report(f"left out: {ranks} ranks: {error}")
            continue
        for preset, tokens, rate in measured:
            if ranks == 1:
                rate_of_one[preset, tokens] = rate
            one = rate_of_one.get((preset, tokens))
            speeds.append(ScalingSpeed(preset, tokens, ranks, rate, None if one is None else rate / one / ranks))
    return speeds
