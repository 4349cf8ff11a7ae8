"""``nmt bench train``: training speed on this machine."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nmt
from nmt.bench.turns import contestants, measure_in_turn, median_rate
from nmt.config import Config, dump_config
from nmt.data.shards import ParallelShards
from nmt.io.writing import scratch_folder, write_file
from nmt.kernels import policy
from nmt.machine.device import Hardware
from nmt.machine.processor import processor_name
from nmt.model.packing import PackedSize
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import load_vocabulary
from nmt.training.input.feed import Epochs, PlannedUpdate
from nmt.training.learner import Learner
from nmt.training.loss_scale import LossScale
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.start.beginning import check_tied_embeddings
from nmt.training.start.cost import flops_of_pairs

_OURS = ("-P", "-m", "nmt.bench.train_worker")
_MICRO_BATCH_TOKENS = 8_192
_UNLIMITED = 1 << 30


def bench_train(
    data: Path,
    config: Config,
    *,
    peers: Mapping[str, Sequence[str]] | None = None,
    rounds: int = 5,
    updates: int = 3,
    report: Callable[[str], None] = lambda message: None,
) -> dict[str, Any]:
    """Measure training speed, alone or in turn with other toolkits.

    Args:
        config: ``batching.update_tokens`` is the size of an update.
        peers: the program of each other toolkit, which calls :func:`nmt.bench.train_worker.main`.
        updates: the number of updates per round. A warm-up round comes first. Each round has other batches if the data
            has so many: libraries compile products for the sizes of a batch. All toolkits get the same updates; each
            gets micro-batches that suit it.
        report: called with one line per round.

    Returns:
        The result for JSON: target tokens per second (the median over the rounds, and each round), and the ratio of
        ours to each peer's.

    Raises:
        ConfigError: source and target have vocabularies of their own, but the model shares their embeddings.
        NmtError: a process failed.
    """
    check_tied_embeddings(config, load_vocabulary(data))
    planned = bench_updates(data, config, updates * (rounds + 1))
    updates = min(updates, len(planned))
    with scratch_folder() as folder:
        write_file(folder / "config.yaml", dump_config(config).encode())
        everybody = {"nmt": _OURS, **(peers or {})}
        arguments = [str(data), str(folder / "config.yaml"), str(updates), str(len(planned))]
        programs = {name: [*program, *arguments] for name, program in everybody.items()}
        with contestants(programs) as entrants:
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
        "target_tokens_per_update": sum(update.target_tokens for update in planned) / len(planned),
    }
    for name, results in measured.items():
        rates = [result["tokens"] / result["seconds"] for result in results]
        result[name] = described[name] | {"target_tokens_per_second": median_rate(results), "rounds": rates}
    ours = result["nmt"]
    batches = [batch for update in planned for batch in update.batches]
    source_tokens, target_tokens = (
        np.concatenate([getattr(batch, lengths) for batch in batches])
        for lengths in ("source_lengths_B", "target_lengths_B")
    )
    seconds = target_tokens.sum() / ours["target_tokens_per_second"]
    flops = flops_of_pairs(config, source_tokens, target_tokens)
    ours["share_of_matrix_rate"] = flops / seconds / ours["matrix_flops_per_second"]
    for peer in peers or ():
        result[peer]["ratio"] = ours["target_tokens_per_second"] / result[peer]["target_tokens_per_second"]
    return result


class BenchLearner:
    """A learner with new weights, which makes updates as training does."""

    def __init__(self, config: Config, hardware: Hardware, ranks: Ranks = NO_OTHERS) -> None:
        model = Transformer(
            config.model,
            config.data.target_pieces,
            source_vocab_size=config.data.vocab_size,
        )
        policy.accelerate(model, policy.choose_kernels(hardware.device, hardware.autocast_dtype))
        self.learner = Learner(model.to(hardware.device, hardware.weights_dtype), config, hardware, ranks)
        self.pads = model.packed_attention is None
        """Whether the model pads sentences for attention."""
        self._fitting_tokens = _UNLIMITED
        scale = LossScale.initial(hardware.precision)
        self._loss_scale = 1.0 if scale is None else scale.value

    def compile(self, planned: Sequence[PlannedUpdate]) -> None:
        """Compile for the largest micro-batch of the updates."""
        batches = [batch for update in planned for batch in update.batches]
        tokens, pairs = (max(getattr(batch, what) for batch in batches) for what in ("longer_side_tokens", "pairs"))
        longest = max(int(side.max()) for batch in batches for side in (batch.source_lengths_B, batch.target_lengths_B))
        self.learner.compile(PackedSize.for_all(tokens, pairs, longest))

    def update(self, planned: PlannedUpdate, number: int) -> None:
        """Make an update; what does not fit into memory once is not tried again."""
        while True:
            planned = planned.with_micro_batches_of(min(planned.micro_batch_tokens, self._fitting_tokens))
            result = self.learner.update(
                planned.batches,
                update=number,
                target_tokens=planned.target_tokens,
                learning_rate=1e-4,
                loss_scale=self._loss_scale,
            )
            if result.fitting_tokens is None:
                return
            self._fitting_tokens = result.fitting_tokens


def bench_updates(
    data: Path, config: Config, count: int, *, pads: bool = True, ranks: Ranks = NO_OTHERS
) -> list[PlannedUpdate]:
    """The first updates of a run, dealt to micro-batches as training deals them; fewer updates if the data is small.

    Args:
        ranks: of which this one gets its share.
        pads: whether the model pads sentences. If it does not, an update is a single micro-batch, unless
            ``batching.micro_batch_tokens`` is set.
    """
    shards = ParallelShards.open(data, "train")
    asked = config.batching.micro_batch_tokens
    size = asked if asked != "auto" else _MICRO_BATCH_TOKENS if pads else _UNLIMITED
    epochs = Epochs(lambda epoch: (shards, None), config.batching, config.training.seed)
    updates = epochs.updates(0, 0, micro_batch_tokens=lambda: size, ranks=ranks, pads=pads)
    return list(takewhile(lambda update: update.epoch == 0, islice(updates, count)))
