"""Before a run: all its settings, and a summary of what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nmt.config import Config, Layer, overlay, parse_layers, setting_in, setting_layer
from nmt.data.data_folder import DataFolder
from nmt.data.line_statistics import line_statistics
from nmt.data.manifest import read_manifest
from nmt.data.shards import read_index
from nmt.errors import ConfigError
from nmt.machine.device import Hardware
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import TrainingData, load_vocabulary
from nmt.training.ranks.exchange import Ranks, ranks_of_environment
from nmt.training.run import hardware_of
from nmt.training.schedule import learning_rate, peak_update
from nmt.training.start.beginning import freeze
from nmt.training.start.choose_settings import Choice, choose_settings
from nmt.training.start.model_memory import check_memory


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


def resolve_config(
    data: Sequence[tuple[Path, float]],
    *,
    preset: str | None = None,
    config_file: Path | None = None,
    init_from: Path | None = None,
    settings: Sequence[str] = (),
) -> tuple[Config, str]:
    """Resolve all settings of a run on data sets with their weights, for programs that train by themselves, such as
    ``examples/benchmarks``.

    Args:
        preset, config_file, init_from: as in :func:`choose_settings`.
        settings: ``key=value`` pairs, which override the others.

    Returns:
        The settings, and the part of the run's folder name that stands for them.

    Raises:
        ConfigError: a setting is unknown or invalid.
        CheckpointError: the bundle does not exist.
        DataError: a data set is not prepared, or has no vocabulary yet.
    """
    manifests = [read_manifest(folder) for folder, _ in data]
    choice = choose_settings(manifests, preset=preset, config_file=config_file, init_from=init_from)
    return settle(data, choice, [setting_layer(setting) for setting in settings]), choice.name


def settle(data: Sequence[tuple[Path, float]], choice: Choice, options: Sequence[Layer] = ()) -> Config:
    """All settings of a run on data sets with their weights: the chosen ones, overridden by the options.

    Args:
        data: without any, the section ``data`` has its defaults.

    Raises:
        ConfigError: a setting is unknown or invalid.
        DataError: a data set is not prepared, or has no vocabulary yet.
    """
    for option in options:
        if "data" in option.values:
            raise ConfigError(f"{option.name}: the data section follows from the data sets. Give --data DIR[:WEIGHT].")
    # The data section always comes from the data sets, even if a file is another run's config.yaml.
    layers = [Layer(layer.name, {**layer.values, "data": {}}) for layer in choice.layers]
    if choice.yields_to_minutes:
        layers[0] = _yielding_to_minutes(layers[0], [*layers[1:], *options])
    if data:
        options = [*options, Layer("the data", {"data": _data_settings(data)})]
    return parse_layers([*layers, *options])


def _yielding_to_minutes(first: Layer, others: Sequence[Layer]) -> Layer:
    """The first layer without its number of updates, if the user limits the time alone: a run uses all of its time.

    A schedule with an end of its own keeps it.
    """
    limits_time_alone = (
        setting_in(others, "training.max_minutes") is not None and setting_in(others, "training.max_updates") is None
    )
    if not limits_time_alone or setting_in([first, *others], "schedule.decay_updates") is not None:
        return first
    return Layer(first.name, overlay(first.values, {"training": {"max_updates": None}}))


def _data_settings(data: Sequence[tuple[Path, float]]) -> dict[str, Any]:
    vocab, vocab_path = load_vocabulary(data[0][0]), DataFolder(data[0][0]).vocab
    first, *others = [(read_manifest(folder), weight) for folder, weight in data]
    lines = line_statistics([folder for folder, _ in data], vocab=vocab_path)
    # Letters are composed as they are in most training lines.
    steps = read_index(data[0][0], vocab=vocab_path).steps.after(first[0].source_text)
    steps = steps.composed(
        source=lines is None or lines.source.are_composed, target=lines is None or lines.target.are_composed
    )
    return {
        "name": first[0].name,
        "source_lang": first[0].source_lang,
        "target_lang": first[0].target_lang,
        "fingerprint": first[0].fingerprint,
        "vocab_fingerprint": vocab.fingerprint,
        "vocab_size": vocab.source.size,
        "target_vocab_size": vocab.target_size,
        "source_text": steps.source,
        "target_text": steps.target,
        "weight": first[1],
        "mixed_with": [
            {"name": manifest.name, "fingerprint": manifest.fingerprint, "weight": weight}
            for manifest, weight in others
        ],
        "lines": lines,
    }


def summarize(data: Sequence[Path], config: Config, ranks: Ranks | None = None) -> Summary:
    """Summarise a run without writing anything.

    Args:
        ranks: those that will train; those of the environment if not given.

    Raises:
        NmtError: as the run itself would.
    """
    ranks = ranks or ranks_of_environment()
    hardware = hardware_of(config, ranks)
    idle_gpus = torch.cuda.device_count() - ranks.local_size if hardware.device.type == "cuda" else 0
    training_data = TrainingData.open(data, config)
    check_memory(config, hardware, ranks)
    with torch.device("meta"):
        model = Transformer(config.model, config.data.target_pieces, source_vocab_size=config.data.vocab_size)
    freeze(model, config.training.freeze)
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    pairs, updates = training_data.epoch_size(config)
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
