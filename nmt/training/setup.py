"""Before the loop: which settings, which data, which folder, and whether the run is new, goes on or is over."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nmt
from nmt.checkpoint.bundle import CONFIG_FILE, VOCAB_FILE, load_bundle, load_training_state
from nmt.checkpoint.run import METRICS_FILE, latest_intact_checkpoint
from nmt.config import (
    Config,
    apply_settings,
    changeable_on_resume,
    differences,
    dump_config,
    load_preset,
    load_yaml,
    parse_config,
)
from nmt.data.batching import plan_epoch
from nmt.data.build import VOCAB_NAME
from nmt.data.manifest import Manifest, read_manifest
from nmt.data.shards import ParallelShards
from nmt.data.vocab import Vocabulary
from nmt.device import Hardware, choose_hardware
from nmt.errors import CheckpointError, ConfigError, DataError
from nmt.model.transformer import Transformer
from nmt.text import replacing
from nmt.training.metrics import Listener, MetricsFile
from nmt.training.schedule import peak_learning_rate
from nmt.training.step import derived_seed
from nmt.training.trainer import Ending, Progress, Trainer


@dataclass(frozen=True)
class Summary:
    """What ``--dry-run`` tells."""

    config: Config
    hardware: Hardware
    parameters: dict[str, int]
    pairs: int
    updates_per_epoch: int
    peak_learning_rate: float


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    run: Path
    ending: Ending
    was_over: bool
    """Whether it was over already, so that nothing was done."""
    progress: Progress
    stopped_by: int | None = None
    """The signal that interrupted it."""


def resolve_config(
    data: Path, *, preset: str | None = None, config_file: Path | None = None, settings: Sequence[str] = ()
) -> tuple[Config, str]:
    """Settle every setting of a run on a data set.

    Args:
        preset: a built-in preset; chosen by the size of the corpus where neither it nor a file is given.
        config_file: YAML of the user's own, laid over nothing but the defaults.
        settings: ``key=value``, laid over those.

    Returns:
        The settings, and the name that the run's folder carries for them.

    Raises:
        ConfigError: an unknown or unfit setting.
        DataError: the data set is not prepared, or has no vocabulary yet.
    """
    if preset is not None and config_file is not None:
        raise ConfigError("--preset and --config were both given: give one; --set changes settings of either.")
    manifest, vocab = read_manifest(data), load_vocabulary(data)
    if config_file is not None:
        values, name, origin = load_yaml(config_file), config_file.stem, str(config_file)
    else:
        name = preset or fitting_preset(manifest)
        values, origin = load_preset(name), f"preset {name}"
    values = apply_settings(values, settings)
    # What the run was trained on is told by the data alone, also where a file is another run's config.yaml.
    values["data"] = {
        "name": manifest.name,
        "source_lang": manifest.source_lang,
        "target_lang": manifest.target_lang,
        "fingerprint": manifest.fingerprint,
        "vocab_fingerprint": vocab.fingerprint,
        "vocab_size": vocab.size,
        "nfc": manifest.nfc,
        "punctuation": manifest.punctuation,
    }
    return parse_config(values, name=origin if not settings else f"{origin} with --set"), name


def load_vocabulary(data: Path) -> Vocabulary:
    """The vocabulary of a data set.

    Raises:
        DataError: there is none yet.
    """
    if not (data / VOCAB_NAME).is_file():
        raise DataError(f"{data}: has no vocabulary yet. Run `nmt build-vocab --data {data}` first.")
    return Vocabulary.load(data / VOCAB_NAME)


def fitting_preset(manifest: Manifest) -> str:
    """The preset that suits a corpus of this size on this machine."""
    pairs = manifest.files[f"train.{manifest.source_lang}"].lines
    if pairs >= 500_000 and torch.cuda.is_available():
        return "base"
    if manifest.name.startswith("toy-"):
        return "tiny"
    return "small"


def build_model(config: Config, vocab: Vocabulary) -> Transformer:
    """A new model; its weights depend on the seed alone."""
    torch.manual_seed(derived_seed(config.training.seed, -1))
    return Transformer(config.model, vocab.size)


def summarize(data: Path, config: Config) -> Summary:
    """Compute what a run would be, without touching anything."""
    hardware = choose_hardware(config.training.device, config.training.precision, config.training.threads)
    vocab, shards = load_vocabulary(data), open_shards(data, config)
    with torch.device("meta"):
        parameters = Transformer(config.model, vocab.size).parameter_counts()
    plan = plan_epoch(
        shards.source_lengths,
        shards.target_lengths,
        update_tokens=config.batching.update_tokens,
        group_tokens=config.batching.group_tokens,
        seed=config.training.seed,
        epoch=0,
    )
    peak = peak_learning_rate(config.schedule, config.model.d_model)
    return Summary(config, hardware, parameters, len(shards), len(plan), peak)


def open_shards(data: Path, config: Config) -> ParallelShards:
    """The training shards, checked against the data set, the vocabulary and the model's positions.

    Raises:
        DataError: they were made from other text or with another vocabulary, are empty, or hold sentences that the
            model has no positions for.
    """
    shards = ParallelShards.open(data, "train")
    if len(shards) == 0:
        raise DataError(f"{data}: no training pair is left after filtering. Look at its manifest.json.")
    for name, theirs, ours in (
        ("text", shards.data_fingerprint, config.data.fingerprint),
        ("vocabulary", shards.vocab_fingerprint, config.data.vocab_fingerprint),
    ):
        if theirs != ours:
            raise DataError(f"{data}: the shards were made from another {name}. Run `nmt build-vocab --data {data}`.")
    longest = int(max(np.max(shards.source_lengths), np.max(shards.target_lengths))) + 1
    if longest > config.model.max_positions:
        raise ConfigError(
            f"model.max_positions is {config.model.max_positions}, but the data holds sentences of {longest} pieces. "
            f"Raise it, or run `nmt build-vocab --max-length {config.model.max_positions - 1}`."
        )
    return shards


def run_folder(root: Path, data_name: str, config_name: str, *, fresh: bool) -> Path:
    """``runs/NAME-PRESET``; with ``fresh`` the next free one, ``NAME-PRESET-2`` and so on."""
    base = root / f"{data_name}-{config_name}"
    folder, number = base, 1
    while fresh and folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def train(
    data: Path,
    run: Path,
    config: Config,
    listener: Listener,
    *,
    accept_changes: bool = False,
    init_from: Path | None = None,
) -> Outcome:
    """Start a run, or go on with the one in the folder.

    Args:
        accept_changes: go on although settings changed that shape what is learnt.
        init_from: a bundle whose weights a new run begins with.

    Raises:
        ConfigError: the settings differ from those that the run began with.
        CheckpointError: the run's checkpoints are all damaged, or the bundle does not fit.
    """
    open_shards(data, config)
    checkpoint, problems = latest_intact_checkpoint(run)
    for problem in problems:
        listener.noticed(f"{problem} Going on from the checkpoint before it.")
    if (run / CONFIG_FILE).is_file():
        _check_changes(run, config, listener, accept_changes)

    state = None if checkpoint is None else load_training_state(checkpoint)
    if state is not None:
        progress = Progress.from_values(dict(state.values))
        if (ending := progress.ending(config)) is not None:
            return Outcome(run, ending, True, progress)

    hardware = choose_hardware(config.training.device, config.training.precision, config.training.threads)
    vocab = load_vocabulary(data)
    if checkpoint is not None:
        if init_from is not None:
            listener.noticed("--init-from is left out: the run goes on from its own checkpoint.")
        model = load_bundle(checkpoint).build_model()
        listener.noticed(f"Going on from {checkpoint}.")
    elif init_from is not None:
        model = _initial_model(init_from, config, vocab)
    else:
        model = build_model(config, vocab)
    _write_run_config(run, config, hardware, update=0 if state is None else state.values["update"])
    trainer = Trainer(run, config, data, model, vocab, hardware, listener, resume=state)
    ending = trainer.train()
    return Outcome(run, ending, False, trainer.progress, trainer.stopped_by)


def _check_changes(run: Path, config: Config, listener: Listener, accept_changes: bool) -> None:
    before = parse_config(load_yaml(run / CONFIG_FILE), name=str(run / CONFIG_FILE))
    changed = differences(before, config)
    refused = [change for change in changed if not changeable_on_resume(change[0])]
    if refused and not accept_changes:
        lines = "\n".join(f"  {key}: {old!r} -> {new!r}" for key, old, new in refused)
        raise ConfigError(
            f"{run} began with other settings:\n{lines}\n"
            "Start anew with --fresh, or go on with the changed settings with --accept-changes."
        )
    for key, old, new in changed:
        listener.noticed(f"Changed since the run began: {key}: {old!r} -> {new!r}.")


def _initial_model(folder: Path, config: Config, vocab: Vocabulary) -> Transformer:
    bundle = load_bundle(folder)
    if bundle.vocab.fingerprint != vocab.fingerprint:
        raise CheckpointError(
            f"{folder} has another vocabulary than the data. Encode the data with it: "
            f"`nmt build-vocab --vocab {folder / VOCAB_FILE}`."
        )
    for key, theirs, ours in differences(bundle.config, config):
        if key.startswith("model.") and "dropout" not in key:
            raise CheckpointError(f"{folder} is another model ({key}: {theirs!r}, not {ours!r}); --set {key}={theirs}.")
    model = Transformer(config.model, vocab.size)
    model.load_state_dict(bundle.weights)
    return model


def _write_run_config(run: Path, config: Config, hardware: Hardware, *, update: int) -> None:
    versions: Mapping[str, Any] = {
        "nmt": nmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    with replacing(run / CONFIG_FILE) as stream:
        stream.write(dump_config(config).encode())
    MetricsFile(run / METRICS_FILE).append(
        {
            "kind": "start",
            "update": update,
            "versions": versions,
            "hardware": str(hardware),
        }
    )
