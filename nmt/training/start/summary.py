"""Before a run: a summary of what its settings mean."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from nmt.config import Config
from nmt.machine.device import Hardware
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import TrainingData
from nmt.training.ranks.exchange import Ranks, ranks_of_environment
from nmt.training.run import hardware_of
from nmt.training.schedule import learning_rate, peak_update
from nmt.training.start.model_memory import check_memory
from nmt.training.start.resume import choose_what_learns


@dataclass(frozen=True)
class Summary:
    """The figures of a run that ``--dry-run`` prints."""

    config: Config
    hardware: Hardware
    ranks: int
    idle_gpus: int
    """The number of this machine's GPUs that the run does not use."""
    parameters: dict[str, int]
    frozen: int
    """The number of frozen parameters."""
    pairs: int
    """The number of pairs per epoch."""
    updates_per_epoch: int
    peak_update: int
    """The update with the highest learning rate."""
    peak_learning_rate: float


def summarize(data: TrainingData, ranks: Ranks | None = None) -> Summary:
    """Summarise a run without writing anything.

    Args:
        ranks: those that will train; those of the environment if not given.

    Raises:
        NmtError: as the run itself would.
    """
    config, ranks = data.config, ranks or ranks_of_environment()
    hardware = hardware_of(config, ranks)
    idle_gpus = torch.cuda.device_count() - ranks.local_size if hardware.device.type == "cuda" else 0
    check_memory(config, hardware, ranks)
    with torch.device("meta"):
        model = Transformer(config.model, config.data.target_pieces, source_vocab_size=config.data.vocab_size)
    choose_what_learns(model, config.training)
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    pairs, updates = data.epoch_size()
    highest = peak_update(config.schedule, config.training.max_updates)
    rate = learning_rate(highest, config.schedule, config.model.d_model, config.training.max_updates)
    return Summary(
        config, hardware, ranks.size, idle_gpus, parameter_counts(model), frozen, pairs, updates, highest, rate
    )


def parameter_counts(model: Transformer) -> dict[str, int]:
    """Part of the model -> number of parameters. A shared matrix counts once."""
    parts: dict[str, list[nn.Module]] = {
        "embedding": [model.embedding],
        "positions": [model.source_positions, model.target_positions],
        "encoder": [model.encoder, model.encoder_norm],
        "decoder": [model.decoder, model.decoder_norm],
    }
    return {
        name: sum(parameter.numel() for parameter in nn.ModuleList(modules).parameters())
        for name, modules in parts.items()
    }
