"""What a run starts from: its own checkpoint, another run's bundle, or new weights; and which settings may differ."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from nmt.checkpoint.bundle import Bundle, TrainingState, load_bundle, load_training_state
from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.run_folder import RunFolder, bundle_to_use, latest_intact_checkpoint, set_aside_damaged
from nmt.config import Config, TrainingConfig, belongs_to_weights, changeable_on_resume, differences, read_config
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError, ConfigError
from nmt.kernels.policy import Kernels, accelerate, choose_kernels
from nmt.machine.device import Hardware
from nmt.model.adapters import add_adapters
from nmt.model.transformer import Transformer
from nmt.training.input.data_sets import DataSets, TrainingData
from nmt.training.learner import KINDS_OF_TENSORS, Learner, derived_seed
from nmt.training.listener import Listener
from nmt.training.loss_scale import LossScale
from nmt.training.progress import Progress
from nmt.training.ranks.exchange import Ranks

Change = tuple[str, str, str]
"""Key, value before, value after."""


@dataclass(frozen=True)
class Beginning:
    """The progress of a run at its start, and the source of its weights.

    Only the main rank reads files. The other ranks receive the weights when the learner is made.
    """

    progress: Progress
    hardware: Hardware
    """The hardware, with the precision of the run's first start."""
    bundle: Bundle | None = None
    """The run's checkpoint, or the bundle with its initial weights; new weights if None."""
    state: TrainingState | None = None
    """Of the checkpoint."""


def find_beginning(
    run: Path,
    data: TrainingData,
    hardware: Hardware,
    listener: Listener,
    ranks: Ranks,
    *,
    accept_changes: bool,
    init_from: Path | None,
) -> Beginning:
    """Find the checkpoint that the run resumes from, if there is one. Damaged newer checkpoints are renamed.

    Raises:
        ConfigError: the settings differ from those of the run's start.
        CheckpointError: all checkpoints are damaged, or the bundle is damaged or has another model or vocabulary.
    """
    config = data.config
    bundle: Bundle | None = None
    state: TrainingState | None = None
    progress = Progress()
    if ranks.is_main:
        checkpoint, problems = latest_intact_checkpoint(run)
        # Without a checkpoint nothing has been learnt with the earlier settings.
        if checkpoint is not None and RunFolder(run).config.is_file():
            for key, old, new in refuse_changes(run, config, data.sets, accept_changes=accept_changes):
                listener.noticed(f"Changed since the run started: {key}: {old} -> {new}.")
        for problem in problems:
            listener.noticed(f"{problem} It was renamed; the run resumes from the checkpoint before it.")
        if checkpoint is not None:
            set_aside_damaged(run, newer_than=checkpoint)
            state = load_training_state(checkpoint)
            progress = _checked_progress(checkpoint, state)
            listener.noticed(f"Resuming from {checkpoint}.")
            if init_from is not None:
                listener.noticed(f"The weights of {init_from} are not used: the run resumes from its own checkpoint.")
            bundle = load_bundle(checkpoint, is_verified=True)
            _check_fit(bundle.folder, bundle.config, bundle.vocab, config, data.sets)
        else:
            bundle = initial_bundle(init_from, data)
    # The main rank decides for all: each rank's own texts name another device, and ranks that began differently would
    # wait for each other for ever.
    is_auto = config.training.precision == "auto"
    if is_auto:
        hardware = _with_precision_of_run(hardware, progress)
    _forget_outdated(progress, config, f"{hardware}, ranks: {ranks.size}", listener)
    initial = LossScale.initial(hardware.precision)
    progress.loss_scale = initial and (progress.loss_scale or initial)
    progress = Progress.from_values(ranks.broadcast_object(progress.values()))
    if is_auto:
        hardware = _with_precision_of_run(hardware, progress)
    return Beginning(progress, hardware, bundle, state)


def initial_bundle(init_from: Path | None, data: TrainingData) -> Bundle | None:
    """The bundle with the initial weights of a new run, if one was named.

    Raises:
        CheckpointError: there is no such bundle, it is damaged, or has another model or vocabulary.
    """
    if init_from is None:
        if data.config.training.adapter_rank is not None:
            raise ConfigError("training.adapter_rank changes a trained model: name it with --init-from.")
        return None
    bundle = load_bundle(bundle_to_use(init_from))
    _check_fit(bundle.folder, bundle.config, bundle.vocab, data.config, data.sets)
    return bundle


def _checked_progress(checkpoint: Path, state: TrainingState) -> Progress:
    """The progress of a checkpoint; a damaged one is refused on the main rank, before the other ranks receive it."""
    try:
        progress = Progress.from_values(dict(state.values))
    except ValueError as error:
        problem = str(error)
    else:
        if progress.skipped <= progress.update:
            return progress
        problem = f"skipped: {progress.skipped} is more than the {progress.update} updates."
    raise _damaged(checkpoint, BundleFolder(checkpoint).training_state, problem)


def _check_tensors(checkpoint: Path, tensors: Mapping[str, Tensor], model: Transformer) -> None:
    """Refuse tensors that do not fit the weights: copying would ignore them, or broadcast them."""
    file = BundleFolder(checkpoint).training_tensors
    shapes = {
        f"{kind}.{name}": parameter.shape for kind in KINDS_OF_TENSORS for name, parameter in model.named_parameters()
    }
    for name, tensor in tensors.items():
        if name not in shapes:
            raise _damaged(checkpoint, file, f"{name} belongs to no weight of the model.")
        if tensor.shape != shapes[name]:
            raise _damaged(checkpoint, file, f"{name} is {list(tensor.shape)}, expected {list(shapes[name])}.")


def _damaged(checkpoint: Path, file: Path, problem: str) -> CheckpointError:
    return CheckpointError(
        f"{file} is damaged: {problem} Remove {checkpoint}, so that the run resumes from the checkpoint before it, or "
        "add --fresh to start over in a new folder."
    )


def _with_precision_of_run(hardware: Hardware, progress: Progress) -> Hardware:
    """The hardware with the precision that ``auto`` chose at the run's first start on this type of device."""
    device, precision = progress.auto_precision or ("", hardware.precision)
    if device != hardware.device.type:
        precision = hardware.precision
    progress.auto_precision = (hardware.device.type, precision)
    return dataclasses.replace(hardware, precision=precision)


def make_learner(beginning: Beginning, data: TrainingData, ranks: Ranks) -> Learner:
    """The model with its current weights, on its device, with its optimiser; the same on every rank.

    Raises:
        CheckpointError: tensors of the training do not fit the model.
        ConfigError: a pattern of parameters to freeze matches none.
    """
    config, progress, hardware, state = data.config, beginning.progress, beginning.hardware, beginning.state
    kernels = choose_kernels(hardware.device, hardware.autocast_dtype, deterministic=hardware.is_deterministic)
    model, whose = build_model(config, data.sets.vocab, kernels), "the model"
    tensors: Mapping[str, Tensor] = {}
    if (bundle := beginning.bundle) is not None:
        model.load_state_dict(bundle.weights)
        if state is not None:
            whose = str(bundle.folder)
            # Adapters of another rank are merged already.
            tensors = state.tensors if bundle.config.training.adapter_rank == config.training.adapter_rank else {}
    choose_what_learns(model, config.training, whose=whose)
    if bundle is not None:
        _check_tensors(bundle.folder, tensors, model)
    learner = Learner(model.to(hardware.device, hardware.weights_dtype), config, hardware, ranks)
    learner.load_state_dict(tensors, progress.update - progress.skipped)
    learner.broadcast()
    return learner


def build_model(config: Config, vocab: VocabularyPair, kernels: Kernels) -> Transformer:
    """A new model, whose weights depend only on the seed.

    Raises:
        ConfigError: as :func:`check_tied_embeddings`.
    """
    check_tied_embeddings(config, vocab)
    torch.manual_seed(derived_seed(config.training.seed, -1))
    return accelerate(Transformer(config.model, vocab.target.size, source_vocab_size=vocab.source.size), kernels)


def check_tied_embeddings(config: Config, vocab: VocabularyPair) -> None:
    """Check that embeddings are shared by sides with one vocabulary alone.

    Raises:
        ConfigError: source and target have vocabularies of their own.
    """
    if config.model.tied_embeddings == "all" and not vocab.is_shared:
        raise ConfigError(
            "model.tied_embeddings is all, but source and target have vocabularies of their own: set "
            "model.tied_embeddings=decoder or none, or train from a bundle of this vocabulary (--init-from)."
        )


def choose_what_learns(model: Transformer, training: TrainingConfig, *, whose: str = "the model") -> None:
    """Add adapters, if they learn in place of all weights, and freeze the parameters whose names match a pattern.

    Args:
        whose: what an error calls the owner of the parameters.

    Raises:
        ConfigError: a pattern matches no parameter, or all parameters are frozen.
    """
    if training.adapter_rank is not None:
        add_adapters(model, training.adapter_rank)
    names = dict(model.named_parameters())
    for pattern in training.freeze:
        matching = fnmatch.filter(names, pattern)
        if not matching:
            parts = sorted({name.split(".")[0] for name in names})
            raise ConfigError(
                f"training.freeze: {pattern!r} matches no parameter of {whose}. Names begin with {', '.join(parts)}: "
                "for example encoder.* or encoder.0.*."
            )
        for name in matching:
            names[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in names.values()):
        raise ConfigError(
            f"training.freeze: the patterns freeze every parameter of {whose}, so nothing is left to learn."
        )


def check_initial_weights(init_from: Path, config: Config, data: DataSets) -> None:
    """Check whether a run can start from a bundle or run, without reading the weights.

    Raises:
        CheckpointError: there is no such bundle, or it has another model, vocabulary or text normalization.
    """
    files = BundleFolder(folder := bundle_to_use(init_from))
    _check_fit(folder, read_config(files.config), VocabularyPair.load(files.vocab), config, data)


def _check_fit(folder: Path, their_config: Config, their_vocab: VocabularyPair, config: Config, data: DataSets) -> None:
    """Refuse weights of another vocabulary, text normalization or model, even with --accept-changes."""
    if their_vocab.fingerprint != data.vocab.fingerprint:
        raise CheckpointError(
            f"{folder} has another vocabulary than the data. Encode the data with it: {_encode_commands(data, folder)}."
        )
    theirs, ours = their_config.data.steps, config.data.steps
    if not ours.include(theirs):
        raise CheckpointError(
            f"{folder} prepares text otherwise than the data (source text: {theirs.words}; of the data: {ours.words}). "
            f"Encode the data as the model does: {_encode_commands(data, folder)}."
        )
    if different := [change for change in differences(their_config, config) if belongs_to_weights(change[0])]:
        listed = "; ".join(f"{key}: {theirs}, not {ours}" for key, theirs, ours in different)
        raise CheckpointError(
            f"{folder} is another model ({listed}). Leave out the options that set these (such as "
            "--set): the settings are then the bundle's."
        )


def _forget_outdated(progress: Progress, config: Config, machine: str, listener: Listener) -> None:
    """Reset what was found by trying, if the machine or the setting changed."""
    asked = config.batching.micro_batch_tokens
    if progress.machine not in (None, machine):
        listener.noticed(f"The hardware changed: {progress.machine} before, {machine} now.")
    if progress.machine != machine:
        progress.compiles = None
    if progress.machine != machine or progress.micro_batch_asked != asked:
        progress.micro_batch_tokens = None
    progress.machine, progress.micro_batch_asked = machine, asked


def refuse_changes(run: Path, config: Config, data: DataSets, *, accept_changes: bool) -> list[Change]:
    """Compare the settings with those of the run's last start, and return the changes.

    Raises:
        ConfigError: a change needs --accept-changes, or does not fit the run's weights.
    """
    changed = differences(read_config(RunFolder(run).config), config)
    refused = [change for change in changed if not changeable_on_resume(change[0])]
    if refused and not (accept_changes and all(_can_be_accepted(key) for key, _, _ in refused)):
        lines = "\n".join(f"  {key}: {old} -> {new}" for key, old, new in refused)
        raise ConfigError(f"{run} was started with other settings:\n{lines}\n" + "\n".join(_advice(refused, run, data)))
    return changed


def _encode_commands(data: DataSets, model: Path, *options: str) -> str:
    """The commands that encode data sets with the vocabulary of a run or bundle."""
    return " and ".join(
        f"`{' '.join(('nmt build-vocab', *options, f'--data {folder} --vocab {model}'))}`" for folder in data.folders
    )


def _belongs_to_encoding(key: str) -> bool:
    return key in (
        "data.vocab_fingerprint", "data.vocab_size", "data.target_vocab_size", "data.source_text", "data.target_text",
        "data.lines.max_pieces",
    )  # fmt: skip


def _can_be_accepted(key: str) -> bool:
    return not belongs_to_weights(key) and not _belongs_to_encoding(key)


def _advice(refused: Sequence[Change], run: Path, data: DataSets) -> list[str]:
    """Advice for each kind of change. --accept-changes is suggested only for changes that it allows, and last: it
    alters the run."""
    keys = [key for key, _, _ in refused]
    advice = ["To start another run, name its folder with --out, or add --fresh for the next free one (not --resume)."]
    if any(map(belongs_to_weights, keys)):
        kept = ", ".join(filter(belongs_to_weights, keys))
        advice.append(f"To resume this run, leave {kept} as before: its weights fit no other model.")
    if any(map(_belongs_to_encoding, keys)):
        length = [f"--max-pieces {old}" for key, old, _ in refused if key == "data.lines.max_pieces"]
        advice.append(f"To resume this run, encode the data as it does: {_encode_commands(data, run, *length)}.")
    if not any(key.startswith("data.") for key in keys):
        advice.append(f"To resume this run with its own settings, use `nmt train --resume {run}`.")
    if others := [key for key in keys if _can_be_accepted(key)]:
        also = f" as for {', '.join(others)}" if len(others) < len(keys) else ""
        advice.append(f"To resume this run with the changed settings{also}, add --accept-changes.")
    return advice
