"""A model bundle on disk: weights, settings and vocabulary. A checkpoint is a bundle with the training state.

Every folder is written under a temporary name, flushed to disk and renamed, so it is complete or absent.
``checksums.json`` holds the sha256 of every file. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from nmt.checkpoint.bundle_files import BundleFolder, Verification, verify
from nmt.checkpoint.fitting import check_fit
from nmt.checkpoint.kinds import AVERAGE, BUNDLE, CHECKPOINT, is_of_average
from nmt.checkpoint.skip_initialisation import SkipInitialisation
from nmt.config import Config, dump_config, read_config
from nmt.config.documents import parse_json
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError
from nmt.io.files import replacing_folder
from nmt.io.hashing import sha256_of
from nmt.io.ownership import Kind
from nmt.io.regular import open_regular, read_regular
from nmt.io.writing import WriteError, write_file
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.kernels.prepacking import prepack
from nmt.model.transformer import Transformer

_ANOTHER_CHECKPOINT = "Use another checkpoint, or copy this one again."


@dataclass(frozen=True)
class Bundle:
    """Everything that is needed to translate."""

    folder: Path
    config: Config
    vocab: VocabularyPair
    weights: dict[str, Tensor]
    """Memory-mapped: pages are read on first access. Copy what must outlive the file."""

    def build_model(
        self,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        *,
        products: torch.dtype | None = None,
    ) -> Transformer:
        """The model with a copy of these weights, ready to translate.

        Args:
            products: prepack the weights for matrix products in this dtype.

        Raises:
            CheckpointError: the weights do not fit the settings.
        """
        with SkipInitialisation():
            model = Transformer(
                self.config.model,
                self.vocab.target.size,
                source_vocab_size=self.vocab.source.size,
            )
        try:
            model.load_state_dict(self.weights, assign=True)
        except RuntimeError as error:
            config = BundleFolder(self.folder).config.name
            raise CheckpointError(f"{self.folder}: the weights do not fit {config}: {error}") from None
        model = accelerate(model, choose_kernels(device, products)).to(device=device, dtype=dtype).eval()
        if products is not None:
            prepack(model, products)
        _copy_mapped_weights(model, self.weights)
        return model


def _copy_mapped_weights(model: Transformer, mapped: Mapping[str, Tensor]) -> None:
    """Copy the weights that are still mapped from the file, which may be overwritten while the model is in use.

    Prepacked weights are copies already and are left alone.
    """
    addresses = {tensor.data_ptr() for tensor in mapped.values()}
    for parameter in model.parameters():
        if parameter.data_ptr() in addresses:
            parameter.data = parameter.data.clone()


@dataclass(frozen=True)
class TrainingState:
    """What training needs, besides the bundle, to resume."""

    tensors: Mapping[str, Tensor]
    """The optimiser's moments."""
    values: Mapping[str, Any]
    """Position in the epoch's plan, scores, seconds, as plain JSON values."""


def save_bundle(
    folder: Path,
    weights: Mapping[str, Tensor],
    config: Config,
    vocab: VocabularyPair,
    *,
    training: TrainingState | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a bundle (with training state: a checkpoint) atomically. It may replace one of the same kind.

    Args:
        notes: the bundle's origin, written as ``notes.json``.

    Raises:
        WriteError: the bundle could not be written, for example because the disk is full. An earlier bundle stays,
            and no partial files are left.
        OutputError: something else exists at ``folder``.
    """
    with replacing_folder(folder, kind_of(notes, training)) as temporary:
        write_bundle(temporary, weights, config, vocab, training=training, notes=notes)
        write_checksums(temporary)


def write_bundle(
    folder: Path,
    weights: Mapping[str, Tensor],
    config: Config,
    vocab: VocabularyPair,
    *,
    training: TrainingState | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write the files of a bundle into an empty folder, all but the checksums; arguments as for :func:`save_bundle`.

    Raises:
        WriteError: a file could not be written.
    """
    files = BundleFolder(folder)
    _save_tensors(_contiguous(weights, torch.float32), files.weights)
    write_file(files.config, dump_config(config).encode())
    for path, content in vocab.contents(files.vocab).items():
        write_file(path, content)
    if training is not None:
        _save_tensors(_contiguous(training.tensors), files.training_tensors)
        _write_json(files.training_state, training.values)
    if notes is not None:
        _write_json(files.notes, notes)


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in the folder of a bundle, which is then complete.

    Raises:
        WriteError: the file could not be written.
    """
    _write_json(BundleFolder(folder).checksums, {path.name: sha256_of(path) for path in sorted(folder.iterdir())})


def kind_of(notes: Mapping[str, Any] | None, training: TrainingState | None = None) -> Kind:
    """The kind of folder that :func:`save_bundle` writes, which may replace one of the same kind."""
    return CHECKPOINT if training is not None else AVERAGE if is_of_average(notes) else BUNDLE


def load_bundle(folder: Path, verification: Verification | None = None, *, is_verified: bool = False) -> Bundle:
    """Read and verify a bundle.

    Args:
        verification: a running verification that includes this folder; None verifies now.
        is_verified: it was verified just now.

    Raises:
        CheckpointError: the folder is not a bundle, a file is missing or damaged, or the settings do not fit the
            weights. The message names the file. All this is checked before any layer is built.
    """
    if verification is not None:
        verification.finish(folder)
    elif not is_verified:
        verify(folder)
    files = BundleFolder(folder)
    config = read_config(files.config)
    vocab = VocabularyPair.load(files.vocab).prepared(config.data.steps, config.data.languages)
    check_fit(files.weights, config.model, vocab.target.size, vocab.source.size)
    return Bundle(folder, config, vocab, _load_tensors(files.weights))


def load_training_state(folder: Path) -> TrainingState:
    """Read the training state of a checkpoint that is already verified.

    Raises:
        CheckpointError: the folder holds a bundle only, or its training state is damaged.
    """
    files = BundleFolder(folder)
    if not files.training_state.is_file():
        raise CheckpointError(
            f"{folder}: holds a model but no training state, so training cannot resume from it. "
            "Name a checkpoint of a run (RUN/checkpoints/step-…)."
        )
    try:
        values = parse_json(read_regular(files.training_state))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{files.training_state} is damaged: {error} {_ANOTHER_CHECKPOINT}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{files.training_state} is damaged: not a mapping. {_ANOTHER_CHECKPOINT}")
    return TrainingState(_load_tensors(files.training_tensors), values)


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        open_regular(path).close()  # safetensors would wait for a pipe
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}).") from None


def _contiguous(tensors: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    # safetensors refuses tensors that share memory or are not contiguous.
    return {name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in tensors.items()}


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:
        raise WriteError.of_native(error, path) from error


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    write_file(path, (json.dumps(values, indent=2) + "\n").encode())
