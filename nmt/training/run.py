"""A run from its folder to its end: whether it is new, goes on or is over, and all that the loop needs."""

from __future__ import annotations

import fnmatch
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import nmt
from nmt.checkpoint.bundle import (
    CONFIG_FILE,
    VOCAB_FILE,
    TrainingState,
    load_bundle,
    load_training_state,
)
from nmt.checkpoint.run import METRICS_FILE, bundle_to_use, latest_intact_checkpoint
from nmt.config import Config, changeable_on_resume, differences, dump_config, load_yaml, parse_config
from nmt.data.manifest import MANIFEST_NAME
from nmt.data.vocab import Vocabulary
from nmt.device import Hardware, choose_hardware
from nmt.errors import CheckpointError, ConfigError
from nmt.model.transformer import Transformer
from nmt.text import replacing
from nmt.training.data import TrainingData
from nmt.training.distributed import Ranks, joined, ranks_of_environment
from nmt.training.metrics import Listener, MetricsFile
from nmt.training.preflight import Preflight, check_disk, preflight
from nmt.training.progress import Ending, Progress
from nmt.training.step import Learner, LossScale, derived_seed
from nmt.training.tensorboard import check_tensorboard
from nmt.training.trainer import Trainer
from nmt.training.validation import Validator

MANIFESTS_FOLDER = "manifests"


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


def train(
    data: Sequence[Path],
    run: Path,
    config: Config,
    listener: Listener,
    *,
    accept_changes: bool = False,
    init_from: Path | None = None,
) -> Outcome:
    """Start a run, or go on with the one in the folder. Under torchrun every rank calls this.

    Args:
        data: the data sets, in the order that the configuration names them; the first one's valid set is the run's.
        accept_changes: go on although settings changed that shape what is learnt.
        init_from: a bundle whose weights a new run begins with.

    Raises:
        ConfigError: the settings differ from those that the run began with.
        CheckpointError: the run's checkpoints are all damaged, the bundle does not fit, or the disk is full.
        DataError: the data is not what the configuration says.
        TrainingError: training cannot go on.
        LostPeerError: another rank is gone.
    """
    ranks = ranks_of_environment()
    hardware = hardware_of(config, ranks)
    if config.logging.tensorboard:
        check_tensorboard()
    with joined(ranks, hardware.device):
        training_data = TrainingData.open(data, config)
        beginning = _Beginning.find(run, config, listener, ranks, accept_changes=accept_changes, init_from=init_from)
        progress = beginning.progress
        if (ending := progress.ending(config)) is not None:
            return Outcome(run, ending, True, progress)
        learner = beginning.learner(config, training_data.vocab, hardware, ranks)
        found = _measured(learner, config, hardware, run, progress, training_data, ranks)
        check_disk(found)
        progress.micro_batch_tokens = found.micro_batch_tokens if config.batching.micro_batch_tokens == "auto" else None
        if ranks.is_main:
            listener.measured(found)
            _write_run_folder(run, config, hardware, ranks, training_data, update=progress.update)
        with training_data.epochs(config, run, ranks) as epochs:
            trainer = Trainer(
                run,
                config,
                training_data.vocab,
                learner,
                epochs,
                Validator(training_data.folders[0], config, training_data.vocab, hardware, ranks),
                listener,
                progress=progress,
                micro_batch_tokens=found.micro_batch_tokens,
                ranks=ranks,
            )
            ending = trainer.train()
        return Outcome(run, ending, False, trainer.progress, trainer.stopped_by)


def rehearse(data: Sequence[Path], run: Path, config: Config, *, init_from: Path | None = None) -> Preflight:
    """The preflight of a run alone: what ``--dry-run`` shows. Touches no file.

    Raises:
        NmtError: as :func:`train` would.
    """
    ranks = ranks_of_environment()
    hardware = hardware_of(config, ranks)
    with joined(ranks, hardware.device):
        training_data = TrainingData.open(data, config)
        learner = _Beginning(Progress(), None, None, init_from).learner(config, training_data.vocab, hardware, ranks)
        return _measured(learner, config, hardware, run, Progress(), training_data, ranks)


def hardware_of(config: Config, ranks: Ranks) -> Hardware:
    """What this rank computes on."""
    training = config.training
    return choose_hardware(
        training.device,
        training.precision,
        training.threads,
        local_rank=ranks.local_rank,
        local_ranks=ranks.local_size,
    )


def _measured(
    learner: Learner,
    config: Config,
    hardware: Hardware,
    run: Path,
    progress: Progress,
    data: TrainingData,
    ranks: Ranks,
) -> Preflight:
    return preflight(learner, config, hardware, run, progress, data.plan(config), data.longest, ranks)


@dataclass(frozen=True)
class _Beginning:
    """What a run begins with: a checkpoint of its own, another's bundle, or nothing. Only the main rank reads files;
    the others get what it read."""

    progress: Progress
    checkpoint: Path | None
    state: TrainingState | None
    init_from: Path | None

    @staticmethod
    def find(
        run: Path,
        config: Config,
        listener: Listener,
        ranks: Ranks,
        *,
        accept_changes: bool,
        init_from: Path | None,
    ) -> _Beginning:
        checkpoint: Path | None = None
        state: TrainingState | None = None
        if ranks.is_main:
            checkpoint, problems = latest_intact_checkpoint(run)
            for problem in problems:
                listener.noticed(f"{problem} Going on from the checkpoint before it.")
            if (run / CONFIG_FILE).is_file():
                _check_changes(run, config, listener, accept_changes)
            state = None if checkpoint is None else load_training_state(checkpoint)
            if checkpoint is not None:
                listener.noticed(f"Going on from {checkpoint}.")
                if init_from is not None:
                    listener.noticed("--init-from is left out: the run goes on from its own checkpoint.")
        values = ranks.told_by_main(dict(state.values) if state is not None else None)
        progress = Progress() if values is None else Progress.from_values(values)
        return _Beginning(progress, checkpoint, state, init_from)

    def learner(self, config: Config, vocab: Vocabulary, hardware: Hardware, ranks: Ranks) -> Learner:
        """The model as it stands, on its device, with its optimiser."""
        model = build_model(config, vocab)
        if ranks.is_main:
            if self.checkpoint is not None:
                model.load_state_dict(load_bundle(self.checkpoint).weights)
            elif self.init_from is not None:
                model.load_state_dict(_initial_weights(bundle_to_use(self.init_from), config, vocab))
        freeze(model, config.training.freeze)
        learner = Learner(
            model.to(device=hardware.device, dtype=hardware.weights_dtype).train(),
            config.optimizer,
            hardware,
            label_smoothing=config.training.label_smoothing,
            seed=config.training.seed,
            ranks=ranks,
            ema_decay=config.training.ema_decay,
            compiled=config.training.compile,
        )
        learner.micro_batch_limit = self.progress.micro_batch_limit
        if self.progress.loss_scale is not None and hardware.precision == "fp16":
            learner.loss_scale = LossScale(self.progress.loss_scale, self.progress.loss_scale_good_updates)
        updates = self.progress.update - self.progress.skipped
        learner.restore(self.state.tensors if self.state is not None else {}, updates)
        learner.synchronize()
        return learner


def build_model(config: Config, vocab: Vocabulary) -> Transformer:
    """A new model; its weights depend on the seed alone."""
    torch.manual_seed(derived_seed(config.training.seed, -1))
    return Transformer(config.model, vocab.size)


def freeze(model: Transformer, patterns: Sequence[str]) -> None:
    """Let the parameters whose names match a pattern keep their values.

    Raises:
        ConfigError: a pattern matches none, or nothing is left to learn.
    """
    names = dict(model.named_parameters())
    for pattern in patterns:
        matching = fnmatch.filter(names, pattern)
        if not matching:
            parts = sorted({name.split(".")[0] for name in names})
            raise ConfigError(
                f"training.freeze: {pattern!r} matches no parameter. Names begin with {', '.join(parts)}: for example "
                "encoder.* or encoder.0.*."
            )
        for name in matching:
            names[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in names.values()):
        raise ConfigError("training.freeze: freezes every parameter, so that nothing is left to learn.")


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


def _initial_weights(folder: Path, config: Config, vocab: Vocabulary) -> dict[str, torch.Tensor]:
    bundle = load_bundle(folder)
    if bundle.vocab.fingerprint != vocab.fingerprint:
        raise CheckpointError(
            f"{folder} has another vocabulary than the data. Encode the data with it: "
            f"`nmt build-vocab --vocab {folder / VOCAB_FILE}`."
        )
    for key, theirs, ours in differences(bundle.config, config):
        if key.startswith("model.") and "dropout" not in key:
            raise CheckpointError(f"{folder} is another model ({key}: {theirs!r}, not {ours!r}); --set {key}={theirs}.")
    return bundle.weights


def _write_run_folder(
    run: Path, config: Config, hardware: Hardware, ranks: Ranks, data: TrainingData, *, update: int
) -> None:
    """Write what the run is: its settings, where its data came from, and in ``metrics.jsonl`` on what it runs."""
    versions: Mapping[str, Any] = {
        "nmt": nmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    with replacing(run / CONFIG_FILE) as stream:
        stream.write(dump_config(config).encode())
    (run / MANIFESTS_FOLDER).mkdir(exist_ok=True)
    for folder in data.folders:
        shutil.copyfile(folder / MANIFEST_NAME, run / MANIFESTS_FOLDER / f"{folder.name}.json")
    metrics = MetricsFile(run / METRICS_FILE)
    metrics.cut_back(update)
    metrics.append(
        {"kind": "start", "update": update, "versions": versions, "hardware": str(hardware), "ranks": ranks.size}
    )
