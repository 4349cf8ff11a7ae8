"""One of several ranks that train: DATA DEVICE UPDATES PRESET:TOKENS...

The main rank prints JSON: preset, target tokens per update, and target tokens per second over all ranks, of each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from training_speed import trained

from nmt.config import Config
from nmt.machine.device import synchronize
from nmt.training.ranks.exchange import Ranks, process_group, ranks_of_environment
from nmt.training.run import hardware_of
from nmt.training.start.settings import resolve_config
from nmt.training.updates import MadeUpdate

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

    def tokens_of(updates: Iterator[MadeUpdate]) -> int:
        """Make updates, and wait until all ranks have made theirs."""
        tokens = sum(update.plan.target_tokens for update in updates)
        synchronize(hardware.device)
        ranks.gather(None)
        return tokens

    with trained(data, config, hardware, ranks) as (_, updates):
        tokens_of(islice(updates, _UNTIL_WARM))
        begin = time.perf_counter()
        return tokens_of(islice(updates, count)) / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
