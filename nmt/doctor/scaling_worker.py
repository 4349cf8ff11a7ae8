"""``python -m nmt.doctor.scaling_worker DATA DEVICE UPDATES PRESET:TOKENS...``: one of several ranks that train.

The main rank prints JSON: preset, target tokens per update, and target tokens per second over all ranks, of each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from nmt.config import Config
from nmt.data.shards import ParallelShards
from nmt.device import Hardware, synchronize
from nmt.kernels.policy import choose_kernels
from nmt.model.transformer import Transformer
from nmt.training.input.feed import Epochs, PlannedUpdate
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import Ranks, joined, ranks_of_environment
from nmt.training.run import hardware_of
from nmt.training.start.setup import resolve_config

_UNTIL_WARM = 3
_PADDED_MICRO_BATCH = 4_096
# The learner halves what does not fit.
_MICRO_BATCH = 1 << 30


def main() -> None:
    """Train with each preset, and time updates."""
    data, device, updates, *tasks = sys.argv[1:]
    ranks, found = ranks_of_environment(), []
    configs = [_config(Path(data), device, *task.split(":")) for task in tasks]
    with joined(ranks, hardware_of(configs[0], ranks).device):
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
    model = Transformer(config.model, config.data.vocab_size, choose_kernels(hardware.device, hardware.autocast_dtype))
    learner = Learner(
        model.to(device=hardware.device, dtype=hardware.weights_dtype).train(),
        config.optimizer,
        hardware,
        label_smoothing=config.training.label_smoothing,
        seed=config.training.seed,
        ranks=ranks,
    )
    updates = _updates(data, config, ranks, pads=not model.takes_sentence_rows)
    _train(learner, islice(updates, _UNTIL_WARM), hardware, ranks)
    timed = list(islice(updates, count))
    ranks.gather(None)
    begin = time.perf_counter()
    _train(learner, iter(timed), hardware, ranks)
    return sum(planned.target_tokens for planned in timed) / (time.perf_counter() - begin)


def _updates(data: Path, config: Config, ranks: Ranks, *, pads: bool) -> Iterator[PlannedUpdate]:
    shards, size = ParallelShards.open(data, "train"), _PADDED_MICRO_BATCH if pads else _MICRO_BATCH
    epochs = Epochs(lambda epoch: (shards, None), config.batching, config.training.seed)
    return epochs.updates(0, 0, micro_batch_tokens=lambda: size, ranks=ranks, pads=pads)


def _train(learner: Learner, updates: Iterator[PlannedUpdate], hardware: Hardware, ranks: Ranks) -> None:
    """Make updates, and wait until all ranks have made theirs."""
    for number, planned in enumerate(updates, start=1):
        learner.update(planned.batches, update=number, target_tokens=planned.target_tokens, learning_rate=1e-4)
    synchronize(hardware.device)
    ranks.gather(None)


if __name__ == "__main__":
    main()
