"""What a run begins with: a checkpoint of its own, another's bundle, or nothing."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nmt.checkpoint.bundle import Bundle, TrainingState, load_bundle, load_training_state
from nmt.checkpoint.bundle_files import TRAINING_STATE_FILE
from nmt.checkpoint.former_names import former_name
from nmt.checkpoint.run_folder import RunFolder, bundle_to_use, latest_intact_checkpoint, set_aside_damaged
from nmt.config import Config, differences
from nmt.data.vocab import Vocabulary
from nmt.device import Hardware
from nmt.errors import CheckpointError, ConfigError
from nmt.kernels.policy import Kernels, choose_kernels
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner, LossScale, derived_seed
from nmt.training.listener import Listener
from nmt.training.progress import Progress
from nmt.training.ranks.exchange import Ranks
from nmt.training.start.changes import belongs_to_weights, check_changes, encode_commands


@dataclass(frozen=True)
class Beginning:
    """Where a run stands, and what its weights are read from. Only the main rank reads files; the others get what it
    read, when the learner is made."""

    progress: Progress
    hardware: Hardware
    """With the precision that the run began with."""
    checkpoint: Path | None = None
    state: TrainingState | None = None
    init_from: Path | None = None
    data: tuple[Path, ...] = ()
    """The data sets, for errors."""


def find_beginning(
    run: Path,
    config: Config,
    data: Sequence[Path],
    hardware: Hardware,
    listener: Listener,
    ranks: Ranks,
    *,
    accept_changes: bool,
    init_from: Path | None,
) -> Beginning:
    """Look into the run's folder. Checkpoints that are damaged are moved aside, so that nothing takes them for the
    newest.

    Raises:
        ConfigError: the settings differ from those that the run began with.
        CheckpointError: there are checkpoints, but none is whole.
    """
    checkpoint: Path | None = None
    state: TrainingState | None = None
    if ranks.is_main:
        checkpoint, problems = latest_intact_checkpoint(run)
        # Without a checkpoint nothing was learnt with the settings before.
        if checkpoint is not None and RunFolder(run).config.is_file():
            check_changes(run, config, data, listener, accept_changes=accept_changes)
        for problem in problems:
            listener.noticed(f"{problem} It is set aside; the run resumes from the checkpoint before it.")
        if checkpoint is not None:
            set_aside_damaged(run, newer_than=checkpoint)
            state = load_training_state(checkpoint)
            _check_progress(checkpoint, state)
            listener.noticed(f"Resuming from {checkpoint}.")
            if init_from is not None:
                listener.noticed("--init-from is ignored: the run resumes from its own checkpoint.")
    values = ranks.told_by_main(dict(state.values) if state is not None else None)
    progress = Progress() if values is None else Progress.from_values(values)
    if config.training.precision == "auto":
        hardware = _with_precision_of_run(hardware, progress, ranks)
    _forget_what_changed(progress, config, f"{hardware}, ranks: {ranks.size}", listener)
    return Beginning(progress, hardware, checkpoint, state, init_from, tuple(data))


def _check_progress(checkpoint: Path, state: TrainingState) -> None:
    """Refuse a training state of which the main rank alone could tell that it is damaged."""
    try:
        progress = Progress.from_values(dict(state.values))
    except ValueError as error:
        problem = str(error)
    else:
        if progress.skipped <= progress.update:
            return
        problem = f"skipped: {progress.skipped} is more than the {progress.update} updates."
    raise CheckpointError(
        f"{checkpoint / TRAINING_STATE_FILE} is damaged: {problem} Remove {checkpoint}, so that the run resumes from "
        "the checkpoint before it, or add --fresh to start over in a new folder."
    )


def _with_precision_of_run(hardware: Hardware, progress: Progress, ranks: Ranks) -> Hardware:
    """The hardware with what ``auto`` came to when the run began on such a device; in a new run, with what the main
    rank has found now."""
    device, precision = progress.auto_precision or ("", hardware.precision)
    if device != hardware.device.type:
        precision = ranks.told_by_main(hardware.precision)
    progress.auto_precision = (hardware.device.type, precision)
    return dataclasses.replace(hardware, precision=precision)


def make_learner(beginning: Beginning, config: Config, vocab: Vocabulary, ranks: Ranks) -> Learner:
    """The model as it stands, on its device, with its optimiser; the same on every rank.

    Raises:
        CheckpointError: the bundle to begin with is of another model or vocabulary.
        ConfigError: what is to be frozen is not there.
    """
    progress, hardware, state = beginning.progress, beginning.hardware, beginning.state
    model = build_model(config, vocab, choose_kernels(hardware.device))
    if ranks.is_main:
        if beginning.checkpoint is not None:
            bundle = load_bundle(beginning.checkpoint)
            _check_fit(bundle, config, vocab, beginning.data)
            model.load_state_dict(bundle.weights)
        elif beginning.init_from is not None:
            bundle = load_bundle(bundle_to_use(beginning.init_from))
            _check_fit(bundle, config, vocab, beginning.data)
            model.load_state_dict(bundle.weights)
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
    learner.micro_batch_limit = progress.micro_batch_limit
    if progress.loss_scale is not None and hardware.precision == "fp16":
        learner.loss_scale = LossScale(progress.loss_scale, progress.loss_scale_good_updates)
    learner.restore(state.tensors if state is not None else {}, progress.update - progress.skipped)
    learner.synchronize()
    return learner


def build_model(config: Config, vocab: Vocabulary, kernels: Kernels) -> Transformer:
    """A new model; its weights depend on the seed alone."""
    torch.manual_seed(derived_seed(config.training.seed, -1))
    return Transformer(config.model, vocab.size, kernels)


def freeze(model: Transformer, patterns: Sequence[str]) -> None:
    """Let the parameters whose names match a pattern keep their values.

    A pattern that matches no name of today is matched with the names of earlier versions, so that their runs resume.

    Raises:
        ConfigError: a pattern matches none, or nothing is left to learn.
    """
    names = dict(model.named_parameters())
    for pattern in patterns:
        matching = fnmatch.filter(names, pattern)
        matching = matching or [name for name in names if fnmatch.fnmatch(former_name(name), pattern)]
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


def _check_fit(bundle: Bundle, config: Config, vocab: Vocabulary, data: Sequence[Path]) -> None:
    """Refuse weights that mean something else here, whatever changes are accepted."""
    folder = bundle.folder
    if bundle.vocab.fingerprint != vocab.fingerprint:
        raise CheckpointError(
            f"{folder} has another vocabulary than the data. Encode the data with it: {encode_commands(data, folder)}."
        )
    theirs, ours = bundle.config.data.source_normalization, config.data.source_normalization
    if theirs != ours:
        raise CheckpointError(
            f"{folder} normalises source text with {theirs}, the data with {ours}. Encode the data as the model does: "
            f"{encode_commands(data, folder)}."
        )
    unfit = [
        f"{key}: {theirs}, not {ours}"
        for key, theirs, ours in differences(bundle.config, config)
        if belongs_to_weights(key)
    ]
    if unfit:
        raise CheckpointError(
            f"{folder} is another model ({'; '.join(unfit)}). Leave out what sets these (--preset, --config, --set): "
            "--init-from then takes the bundle's settings."
        )


def _forget_what_changed(progress: Progress, config: Config, machine: str, listener: Listener) -> None:
    """What was found out about memory holds for the same machine and setting; a landing for the same limit of time."""
    asked = config.batching.micro_batch_tokens
    if progress.machine not in (None, machine):
        listener.noticed(f"Until now on {progress.machine}; from now on {machine}.")
    if progress.machine != machine or progress.micro_batch_asked != asked:
        progress.micro_batch_tokens = progress.micro_batch_limit = None
    progress.machine, progress.micro_batch_asked = machine, asked
    if progress.landing_minutes != config.training.max_minutes:
        progress.decay_span = None
    progress.landing_minutes = config.training.max_minutes
