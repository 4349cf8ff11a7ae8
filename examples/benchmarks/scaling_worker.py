"""One of several ranks that train: DATA DEVICE UPDATES PRESET:TOKENS...

The main rank prints JSON: preset, target tokens per update, and target tokens per second over all ranks, of each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from training_speed import BenchLearner

from nmt.config import Config
from nmt.machine.device import Hardware, synchronize
from nmt.training.input.feed import PlannedUpdate
from nmt.training.ranks.exchange import Ranks, process_group, ranks_of_environment
from nmt.training.run import hardware_of
from nmt.training.start.settings import resolve_config

_UNTIL_WARM = 3


def main() -> None:
    """Train with each preset, and time updates."""
    data, device, updates, *tasks = sys.argv[1:]
    ranks, found = ranks_of_environment(), []
    configs = [_config(Path(data), device, *task.split(":")) for task in tasks]
    with process_group(ranks, hardware_of(configs[0], ranks).device):
        for task, config in zip(tasks, configs, strict=True):
            rate = _tokens_per_second(Path(data), config, int(updates), ranks)
            found.append([task.split(":")[0], config.batching.update_tokens, rate])
    if ranks.is_main:
        sys.stdout.write(json.dumps(found) + "\n")


def _config(data: Path, device: str, preset: str, tokens: str) -> Config:
    settings = [f"batching.update_tokens={tokens}", f"training.device={device}"]
    return resolve_config([(data, 1.0)], preset=preset, settings=settings)[0]


def _tokens_per_second(data: Path, config: Config, count: int, ranks: Ranks) -> float:
    """Target tokens per second of all ranks together, after some updates that warm up."""
    hardware = hardware_of(config, ranks)
    learner = BenchLearner(config, hardware, ranks)
    # A small data set has fewer updates, which then come again.
    updates = cycle(learner.updates(data, _UNTIL_WARM + count))
    _train(learner, islice(updates, _UNTIL_WARM), hardware, ranks)
    timed = list(islice(updates, count))
    ranks.gather(None)
    begin = time.perf_counter()
    _train(learner, iter(timed), hardware, ranks)
    return sum(planned.target_tokens for planned in timed) / (time.perf_counter() - begin)


def _train(learner: BenchLearner, updates: Iterator[PlannedUpdate], hardware: Hardware, ranks: Ranks) -> None:
    """Make updates, and wait until all ranks have made theirs."""
    for number, planned in enumerate(updates, start=1):
        learner.update(planned, number)
    synchronize(hardware.device)
    ranks.gather(None)


if __name__ == "__main__":
    main()
