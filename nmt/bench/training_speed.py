"""``nmt bench train``: training speed on this machine, alone or beside another toolkit on the same batches."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nmt
from nmt.bench.turns import contestants, measure_in_turn, median_rate
from nmt.config import Config, dump_config
from nmt.data.batching import Batch, collate, plan_epoch, rank_micro_batches
from nmt.data.shards import ParallelShards
from nmt.errors import NmtError
from nmt.processor import processor_name
from nmt.training.start.cost import training_flops
from nmt.writing import open_to_write, scratch_folder, write_file

_WORKER = "nmt.bench.train_worker"
_MICRO_BATCH_TOKENS = 8_192


def bench_train(
    data: Path,
    config: Config,
    *,
    against: str | None = None,
    rounds: int = 5,
    updates: int = 3,
    report: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Measure training speed, alone or in turn with another toolkit.

    Args:
        against: another toolkit that ``nmt.bench.train_worker`` knows.
        config: ``batching.update_tokens`` is the size of an update. The other toolkit trains in a plain loop with the
            default allocator: on a GPU in our precision, on a CPU in fp32.
        updates: the number of updates per round. A warm-up round comes first. Each round has other batches if the data
            has so many: libraries compile products for the sizes of a batch.
        report: called with one line per round.

    Returns:
        The result for JSON: target tokens per second (the median over the rounds, and each round), and the ratio.

    Raises:
        NmtError: the other toolkit is not installed, or a process failed.
    """
    if against is not None and importlib.util.find_spec(against) is None:
        raise NmtError(f"--against {against}: is not installed here. Install it: `pip install transformers`.")
    batches = bench_batches(data, config, updates * (rounds + 1))
    updates = min(updates, len(batches))
    with scratch_folder() as folder:
        save_batches(folder / "batches.npz", batches)
        write_file(folder / "config.yaml", dump_config(config).encode())
        names = ("nmt", *([against] if against else []))
        commands = {name: (_WORKER, [name, str(folder), str(updates)]) for name in names}
        with contestants(commands) as entrants:
            measured = measure_in_turn(entrants, rounds, report)
            described = {entrant.name: dict(entrant.description) for entrant in entrants}
    result: dict[str, Any] = {
        "benchmark": "train",
        "versions": {"nmt": nmt.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": processor_name(), "threads": described["nmt"]["threads"]},
        "model": config.model.model_dump(mode="json"),
        "vocab_size": config.data.vocab_size,
        "rounds": rounds,
        "updates_per_round": updates,
        "target_tokens_per_update": sum(_tokens(update) for update in batches) / len(batches),
    }
    for name, results in measured.items():
        rates = [result["tokens"] / result["seconds"] for result in results]
        result[name] = described[name] | {"target_tokens_per_second": median_rate(results), "rounds": rates}
    ours = result["nmt"]
    flops = sum(training_flops(config, *_shape(batch)) for update in batches for batch in update)
    seconds = sum(_tokens(update) for update in batches) / ours["target_tokens_per_second"]
    ours["share_of_matrix_rate"] = flops / seconds / ours["matrix_flops_per_second"]
    if against is not None:
        result["ratio"] = result["nmt"]["target_tokens_per_second"] / result[against]["target_tokens_per_second"]
    return result


def bench_batches(data: Path, config: Config, updates: int) -> list[list[Batch]]:
    """The micro-batches of the first updates of a run; fewer updates if the data is small."""
    shards = ParallelShards.open(data, "train")
    batching = config.batching
    size = batching.micro_batch_tokens if batching.micro_batch_tokens != "auto" else _MICRO_BATCH_TOKENS
    plan = plan_epoch(
        shards.source_lengths,
        shards.target_lengths,
        update_tokens=batching.update_tokens,
        group_tokens=batching.group_tokens,
        seed=config.training.seed,
        epoch=0,
    )
    return [
        [
            collate(shards, pairs)
            for pairs in rank_micro_batches(
                plan,
                index,
                rank=0,
                ranks=1,
                max_tokens=size,
                source_lengths=shards.source_lengths,
                target_lengths=shards.target_lengths,
            )
        ]
        for index in range(min(updates, len(plan)))
    ]


def save_batches(path: Path, updates: list[list[Batch]]) -> None:
    """Write updates for the workers."""
    arrays = {
        f"{update}.{micro_batch}.{name}": getattr(batch, name)
        for update, batches in enumerate(updates)
        for micro_batch, batch in enumerate(batches)
        for name in (field.name for field in fields(Batch))
    }
    with open_to_write(path, "xb") as stream:
        np.savez(stream, **arrays)


def load_batches(path: Path) -> list[list[Batch]]:
    """Read the updates that :func:`save_batches` wrote."""
    updates: dict[int, dict[int, dict[str, Any]]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            update, micro_batch, name = key.split(".")
            updates.setdefault(int(update), {}).setdefault(int(micro_batch), {})[name] = arrays[key]
    return [[Batch(**parts) for parts in batches.values()] for batches in updates.values()]


def _tokens(update: list[Batch]) -> int:
    return sum(batch.target_tokens for batch in update)


def _shape(batch: Batch) -> tuple[int, int, int]:
    return len(batch.source_BS), batch.source_BS.shape[1], batch.target_input_BT.shape[1]
