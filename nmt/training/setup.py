"""Before a run: which settings, which folder, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.checkpoint.files import CONFIG_FILE
from nmt.checkpoint.run import bundle_to_use
from nmt.config import Config, apply_settings, load_preset, load_yaml, parse_config
from nmt.data.line_statistics import line_statistics
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.shards import read_index
from nmt.device import Hardware
from nmt.errors import ConfigError
from nmt.model.transformer import Transformer
from nmt.training.beginning import freeze
from nmt.training.data import TrainingData, load_vocabulary
from nmt.training.distributed import ranks_of_environment
from nmt.training.run import hardware_of
from nmt.training.schedule import peak_learning_rate


@dataclass(frozen=True)
class Summary:
    """What ``--dry-run`` tells."""

    config: Config
    hardware: Hardware
    ranks: int
    idle_gpus: int
    """GPUs of this machine that the run leaves alone."""
    parameters: dict[str, int]
    frozen: int
    """Parameters that keep their values."""
    pairs: int
    """Of an epoch."""
    updates_per_epoch: int
    peak_learning_rate: float


def resolve_config(
    data: Sequence[tuple[Path, float]],
    *,
    preset: str | None = None,
    config_file: Path | None = None,
    init_from: Path | None = None,
    settings: Sequence[str] = (),
) -> tuple[Config, str]:
    """Settle every setting of a run on one data set, or on several with their weights.

    Args:
        preset: a built-in preset; chosen by the size of the corpus where neither it nor a file nor a bundle is given.
        config_file: YAML of the user's own, laid over nothing but the defaults.
        init_from: a bundle or run that the run will begin with: its settings are taken where neither preset nor file
            is given.
        settings: ``key=value``, laid over those.

    Returns:
        The settings, and the name that the run's folder carries for them.

    Raises:
        ConfigError: an unknown or unfit setting.
        CheckpointError: there is no such bundle.
        DataError: a data set is not prepared, or has no vocabulary yet.
    """
    if preset is not None and config_file is not None:
        raise ConfigError("--preset and --config were both given: give one; --set changes settings of either.")
    manifests = [read_manifest(folder) for folder, _ in data]
    vocab = load_vocabulary(data[0][0])
    if config_file is not None:
        values, name, origin = load_yaml(config_file), config_file.stem, str(config_file)
    elif preset is None and init_from is not None:
        origin = str(bundle_to_use(init_from) / CONFIG_FILE)
        values, name = load_yaml(Path(origin)), "tuned"
    else:
        name = preset or fitting_preset(manifests)
        values, origin = load_preset(name), f"preset {name}"
    values = apply_settings(values, settings)
    first, *others = zip(manifests, (weight for _, weight in data), strict=True)
    # What the run is trained on is told by the data alone, also where a file is another run's config.yaml.
    values["data"] = {
        "name": first[0].name,
        "source_lang": first[0].source_lang,
        "target_lang": first[0].target_lang,
        "fingerprint": first[0].fingerprint,
        "vocab_fingerprint": vocab.fingerprint,
        "vocab_size": vocab.size,
        "nfc": first[0].nfc,
        "punctuation": first[0].punctuation,
        "source_normalization": read_index(data[0][0]).source_normalization,
        "weight": first[1],
        "mixed_with": [
            {"name": manifest.name, "fingerprint": manifest.fingerprint, "weight": weight}
            for manifest, weight in others
        ],
        "lines": line_statistics([folder for folder, _ in data]),
    }
    return parse_config(values, name=origin if not settings else f"{origin} with options"), name


def fitting_preset(manifests: Sequence[Manifest]) -> str:
    """The preset that suits corpora of this size on this machine."""
    pairs = sum(manifest.files[f"train.{manifest.source_lang}"].lines for manifest in manifests)
    if pairs >= 500_000 and torch.cuda.is_available():
        return "base"
    if all(manifest.name.startswith("toy-") for manifest in manifests):
        return "tiny"
    return "small"


def summarize(data: Sequence[Path], config: Config) -> Summary:
    """Compute what a run would be, without touching anything.

    Raises:
        NmtError: as the run itself would.
    """
    ranks = ranks_of_environment()
    hardware = hardware_of(config, ranks)
    idle_gpus = torch.cuda.device_count() - ranks.local_size if hardware.device.type == "cuda" else 0
    training_data = TrainingData.open(data, config)
    with torch.device("meta"):
        model = Transformer(config.model, training_data.vocab.size)
    freeze(model, config.training.freeze)
    frozen = sum(parameter.numel() for parameter in model.parameters() if not parameter.requires_grad)
    pairs, updates = training_data.epoch_size(config)
    peak = peak_learning_rate(config.schedule, config.model.d_model)
    return Summary(config, hardware, ranks.size, idle_gpus, model.parameter_counts(), frozen, pairs, updates, peak)
