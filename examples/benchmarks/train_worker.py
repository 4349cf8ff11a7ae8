"""A process that trains for ``python examples/benchmarks train``: DATA CONFIG UPDATES_PER_ROUND UPDATES.

It makes the first ``UPDATES`` of a run, again and again.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from training_speed import BenchLearner, bench_updates
from turns import serve

from nmt.config import Config, read_config
from nmt.machine.device import choose_hardware, synchronize
from nmt.training.input.feed import PlannedUpdate


@dataclass(frozen=True)
class Trainer:
    """What trains a model: ours, or another toolkit's."""

    description: dict[str, Any]
    device: torch.device
    update: Callable[[PlannedUpdate, int], object]
    """Makes an update with a number."""
    updates: Callable[[Path, int], Sequence[PlannedUpdate]] | None = None
    """The first updates of a run in micro-batches that suit it; by default, for a model that pads."""
    is_compiled: Callable[[], bool] = lambda: False
    """Whether a compiled graph computes, asked after the first updates."""


def main(begin: Callable[[Config], Trainer]) -> None:
    """Set up and warm up a trainer, then run a round of updates per line on stdin."""
    data, config, *counts = sys.argv[1:]
    serve(lambda: set_up(begin, Path(data), Path(config), *map(int, counts)))


def set_up(
    begin: Callable[[Config], Trainer], data: Path, config_file: Path, updates_per_round: int, count: int
) -> tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]:
    """A trainer's description, and the function that runs a round."""
    config = read_config(config_file)
    trainer = begin(config)
    # The first updates come again where a small data set has no more.
    planned = trainer.updates(data, count) if trainer.updates is not None else bench_updates(data, config, count)
    updates = itertools.cycle(planned)
    made = 0

    def run(task: str) -> Mapping[str, Any]:
        nonlocal made
        round_updates = list(itertools.islice(updates, updates_per_round))
        begin = time.perf_counter()
        for planned in round_updates:
            made += 1
            trainer.update(planned, made)
        synchronize(trainer.device)
        tokens = sum(planned.target_tokens for planned in round_updates)
        return {"seconds": time.perf_counter() - begin, "tokens": tokens}

    run("warm-up")
    return trainer.description | {"threads": torch.get_num_threads(), "compiled": trainer.is_compiled()}, run


def ours(config: Config) -> Trainer:
    """Ours, as ``nmt train`` trains."""
    training = config.training
    product = (config.model.d_model, config.model.d_ff)
    hardware = choose_hardware(training.device, training.precision, training.threads, product=product)
    bench = BenchLearner(config, hardware)
    description = {
        "device": str(hardware.device),
        "precision": hardware.precision,
        "parameters": sum(p.numel() for p in bench.learner.parameters.values()),
    }
    return Trainer(description, hardware.device, bench.update, bench.updates, lambda: bench.learner.is_compiled)


if __name__ == "__main__":
    main(ours)
