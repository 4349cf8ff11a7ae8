"""Training speed on this machine, alone or in turn with other toolkits."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import torch
from turns import measure_in_turn, median_rate, started

import nmt
from nmt.config import Config, dump_config
from nmt.data.dealing import fitting_limits
from nmt.data.shards import ParallelShards
from nmt.io.writing import scratch_folder, write_file
from nmt.kernels import policy
from nmt.machine.device import Hardware
from nmt.machine.processor import processor_name
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import load_vocabulary
from nmt.training.input.feed import Epochs, PlannedUpdate
from nmt.training.input.micro_batches import Filled, MicroBatching, Padded
from nmt.training.learner import Learner
from nmt.training.listener import Listener
from nmt.training.loss_scale import LossScale
from nmt.training.progress import Progress
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.run_log import RunLog
from nmt.training.start.resume import check_tied_embeddings
from nmt.training.start.settings import resolve_config
from nmt.training.start.trial import MOST_LOGITS
from nmt.training.stopping import Limits, StopRequest
from nmt.training.updates import MadeUpdate, Updates

_OURS = (str(Path(__file__).with_name("train_worker.py")),)
_MICRO_BATCH_TOKENS = 8_192
_UPDATES_WITH_SPARE_ROWS = 200


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
        peers: the program of each other toolkit, which calls :func:`train_worker.main`.
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
        with started(programs) as contestants:
            measured = measure_in_turn(contestants, rounds, report)
            described = {contestant.name: dict(contestant.description) for contestant in contestants}
    result: dict[str, Any] = {
        "benchmark": "train",
        "versions": {"nmt": nmt.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": processor_name(), "threads": described["nmt"]["threads"]},
        "model": config.model.model_dump(mode="json"),
        "vocab_size": config.data.vocab_size,
        "rounds": rounds,
        "updates_per_round": updates,
        "spare_rows_on_gpus": {str(gpus): spare_rows(data, config, gpus) for gpus in (1, 8)},
        "target_tokens_per_update": sum(update.target_tokens for update in planned) / len(planned),
    }
    for name, results in measured.items():
        rates = [result["tokens"] / result["seconds"] for result in results]
        result[name] = described[name] | {"target_tokens_per_second": median_rate(results), "rounds": rates}
    ours = result["nmt"]
    for peer in peers or ():
        result[peer]["ratio"] = ours["target_tokens_per_second"] / result[peer]["target_tokens_per_second"]
    return result


def config_to_train(data: Path, preset: str, update_tokens: int, settings: Sequence[str]) -> Config:
    """The configuration of a preset for a data set, with updates of so many target tokens."""
    tokens = [f"batching.update_tokens={update_tokens}", f"batching.group_tokens={update_tokens}"]
    return resolve_config([(data, 1.0)], preset=preset, settings=[*tokens, *settings])[0]


@contextmanager
def trained(
    data: Path, config: Config, hardware: Hardware, ranks: Ranks = NO_OTHERS
) -> Iterator[tuple[Learner, Iterator[MadeUpdate]]]:
    """A learner with new weights, and the updates of a run, which are made as ``nmt train`` makes them, without end.

    Where attention needs no padding, an update is a single micro-batch for each rank, unless
    ``batching.micro_batch_tokens`` is set.
    """
    model = Transformer(config.model, config.data.target_pieces, source_vocab_size=config.data.vocab_size)
    policy.accelerate(model, policy.choose_kernels(hardware.device, hardware.autocast_dtype))
    model.to(hardware.device, hardware.weights_dtype)
    asked = config.batching.micro_batch_tokens
    if asked == "auto":
        pads = model.packed_attention is None
        asked = _MICRO_BATCH_TOKENS if pads else MOST_LOGITS // config.data.target_pieces
    shards, epochs = _opened(data, config)
    batching = epochs.micro_batching(model, model.device, ranks, _longest(shards))
    progress = Progress(micro_batch_tokens=asked, loss_scale=LossScale.initial(hardware.precision))
    log = RunLog(data, config, Listener(), progress, is_main=False)  # writes nothing
    with closing(Learner(model, config, hardware, ranks)) as learner:
        if config.training.compile is True:
            learner.compile()
        updates = Updates(config, progress, learner, epochs, batching, Limits(config, progress), StopRequest(), log)
        with closing(updates.make()) as made:
            yield learner, made
        updates.drop()


def bench_updates(data: Path, config: Config, count: int) -> list[PlannedUpdate]:
    """The first updates of a run, in micro-batches for a model that pads; fewer updates if the data is small."""
    _, epochs = _opened(data, config)
    asked = config.batching.micro_batch_tokens
    return _first_updates(epochs, count, Padded(_MICRO_BATCH_TOKENS if asked == "auto" else asked), NO_OTHERS)


def _first_updates(epochs: Epochs, count: int, batching: MicroBatching, ranks: Ranks) -> list[PlannedUpdate]:
    updates = epochs.updates(0, 0, batching=lambda: batching, ranks=ranks)
    return list(takewhile(lambda update: update.epoch == 0, islice(updates, count)))


def spare_rows(data: Path, config: Config, gpus: int) -> float:
    """The share of rows that hold no piece, where attention needs no padding and all micro-batches have one size.

    Args:
        gpus: that share the updates, each with memory for its share.
    """
    shards, epochs = _opened(data, config)
    sides, longest = (shards.source_lengths, shards.target_lengths), _longest(shards)
    _, plan = epochs.plan(0)
    limits = fitting_limits(
        plan, *sides, ranks=gpus, max_tokens=MOST_LOGITS // config.data.target_pieces, longest=longest
    )
    filled = Filled.within(limits, longest, torch.device("cpu"))
    pieces = rows = 0
    for index in range(min(len(plan), _UPDATES_WITH_SPARE_ROWS)):
        pairs = plan.update(index)
        pieces += sum(int(lengths[pairs].sum()) + len(pairs) for lengths in sides)
        rows += len(filled.of(plan, index, Ranks(0, gpus), sides)) * gpus * (filled.source.rows + filled.target.rows)
    return 1 - pieces / rows


def _opened(data: Path, config: Config) -> tuple[ParallelShards, Epochs]:
    shards = ParallelShards.open(data, "train")
    return shards, Epochs(lambda *place: (shards, None), config.batching, config.training.seed)


def _longest(shards: ParallelShards) -> int:
    """The pieces of the longest sentence, with eos."""
    return int(max(shards.source_lengths.max(), shards.target_lengths.max())) + 1
