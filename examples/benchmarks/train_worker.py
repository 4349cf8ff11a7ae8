"""A process that trains for ``python examples/benchmarks train``: DATA CONFIG UPDATES_PER_ROUND UPDATES.

It makes the first ``UPDATES`` of a run, again and again; ours goes on with the next epoch.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from training_speed import bench_updates, trained
from turns import serve

from nmt.config import Config, read_config
from nmt.machine.device import choose_hardware, synchronize
from nmt.training.input.feed import PlannedUpdate


@dataclass(frozen=True)
class Trainer:
    """What trains a model: ours, or another toolkit's."""

    description: dict[str, Any]
    device: torch.device
    updates: Iterator[PlannedUpdate]
    """Each is made when it is taken, or a little earlier."""
    is_compiled: Callable[[], bool] = lambda: False
    """Whether a compiled graph computes, asked after the first updates."""


Begin = Callable[[Path, Config, int], AbstractContextManager[Trainer]]
"""A data set, a configuration, and the number of updates that come again and again -> what trains."""


def main(begin: Begin) -> None:
    """Set up and warm up a trainer, then run a round of updates per line on stdin."""
    data, config_file, updates_per_round, count = sys.argv[1:]
    with begin(Path(data), read_config(Path(config_file)), int(count)) as trainer:
        serve(lambda: warmed_up(trainer, int(updates_per_round)))


def warmed_up(trainer: Trainer, updates_per_round: int) -> tuple[Mapping[str, Any], Callable[[str], Mapping[str, Any]]]:
    """A trainer's description, and the function that runs a round."""

    def run(task: str) -> Mapping[str, Any]:
        begin = time.perf_counter()
        tokens = sum(update.target_tokens for update in itertools.islice(trainer.updates, updates_per_round))
        synchronize(trainer.device)
        return {"seconds": time.perf_counter() - begin, "tokens": tokens}

    run("warm-up")
    return trainer.description | {"threads": torch.get_num_threads(), "compiled": trainer.is_compiled()}, run


def one_by_one(
    update: Callable[[PlannedUpdate], object], data: Path, config: Config, count: int
) -> Iterator[PlannedUpdate]:
    """Make the first updates of a run, in micro-batches for a model that pads, again and again."""
    for planned in itertools.cycle(bench_updates(data, config, count)):
        update(planned)
        yield planned


@contextmanager
def ours(data: Path, config: Config, count: int) -> Iterator[Trainer]:
    """Ours, as ``nmt train`` trains."""
    training = config.training
    product = (config.model.d_model, config.model.d_ff)
    hardware = choose_hardware(training.device, training.precision, training.threads, product=product)
    with trained(data, config, hardware) as (learner, updates):
        description = {
            "device": str(hardware.device),
            "precision": hardware.precision,
            "parameters": sum(p.numel() for p in learner.parameters.values()),
        }
        plans = (update.plan for update in updates)
        yield Trainer(description, hardware.device, plans, lambda: learner.is_compiled)


if __name__ == "__main__":
    main(ours)
