"""A model bundle on disk: weights, settings and vocabulary, and beside them, in a checkpoint, the training state.

Every folder is written under a temporary name, flushed to disk and renamed, so it is whole or not there.
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

from nmt.checkpoint.bundle_files import (
    CHECKSUMS_FILE,
    CONFIG_FILE,
    MODEL_FILE,
    NOTES_FILE,
    TRAINING_STATE_FILE,
    TRAINING_TENSORS_FILE,
    VOCAB_FILE,
    Verification,
    verify,
)
from nmt.checkpoint.fitting import check_fit
from nmt.checkpoint.former_names import current_name
from nmt.checkpoint.kinds import AVERAGE, BUNDLE, CHECKPOINT
from nmt.checkpoint.unfilled import Unfilled
from nmt.config import Config, dump_config, load_yaml, parse_config
from nmt.config.documents import parse_json
from nmt.data.vocab import Vocabulary
from nmt.errors import CheckpointError
from nmt.files import replacing_folder
from nmt.hashing import sha256_of
from nmt.kernels.linear import prepack
from nmt.kernels.policy import choose_kernels
from nmt.model.transformer import Transformer
from nmt.writing import WriteError, write_file

_ANOTHER_CHECKPOINT = "Use another checkpoint, or copy this one again."


@dataclass(frozen=True)
class Bundle:
    """All that is needed to translate."""

    folder: Path
    config: Config
    vocab: Vocabulary
    weights: dict[str, Tensor]
    """Read from the file as they are asked for, so what is to last must be copied."""

    def build_model(
        self,
        device: torch.device | None = None,
        dtype: torch.dtype = torch.float32,
        *,
        products: torch.dtype | None = None,
    ) -> Transformer:
        """The model with these weights, in memory of its own, ready to translate.

        Args:
            products: prepack the weights for products in this dtype.

        Raises:
            CheckpointError: the weights are not those of the model that the settings describe.
        """
        with Unfilled():
            model = Transformer(self.config.model, self.vocab.size, choose_kernels(device, products))
        try:
            model.load_state_dict(self.weights, assign=True)
        except RuntimeError as error:
            raise CheckpointError(f"{self.folder}: the weights do not fit {CONFIG_FILE}: {error}") from None
        model = model.to(device=device, dtype=dtype).eval()
        if products is not None:
            prepack(model, products)
        _let_go_of_file(model, self.weights)
        return model


def _let_go_of_file(model: Transformer, mapped: Mapping[str, Tensor]) -> None:
    """Copy the weights that still lie in the file: it may be overwritten or truncated while the model is in use.

    Prepacked weights are copies already, so no weight is copied twice.
    """
    addresses = {tensor.data_ptr() for tensor in mapped.values()}
    for parameter in model.parameters():
        if parameter.data_ptr() in addresses:
            parameter.data = parameter.data.clone()


@dataclass(frozen=True)
class TrainingState:
    """What training needs beside the bundle to go on."""

    tensors: Mapping[str, Tensor]
    """The optimiser's moments."""
    values: Mapping[str, Any]
    """Place in the plan, scores, seconds; plain JSON."""


def save_bundle(
    folder: Path,
    weights: Mapping[str, Tensor],
    config: Config,
    vocab: Vocabulary,
    *,
    training: TrainingState | None = None,
    notes: Mapping[str, Any] | None = None,
) -> None:
    """Write a bundle (with training state: a checkpoint), whole or not at all; replaces one of the same kind.

    Args:
        notes: written as ``notes.json``: where the bundle comes from.

    Raises:
        WriteError: it could not be written, for example because the disk is full; nothing is left behind, and a
            bundle that stood there still stands.
        OutputError: something else stands there.
    """
    kind = CHECKPOINT if training is not None else AVERAGE if "averaged" in (notes or {}) else BUNDLE
    with replacing_folder(folder, kind) as temporary:
        _save_tensors(_contiguous(weights, torch.float32), temporary / MODEL_FILE)
        write_file(temporary / CONFIG_FILE, dump_config(config).encode())
        write_file(temporary / VOCAB_FILE, vocab.model_bytes)
        if training is not None:
            _save_tensors(_contiguous(training.tensors), temporary / TRAINING_TENSORS_FILE)
            _write_json(temporary / TRAINING_STATE_FILE, training.values)
        if notes is not None:
            _write_json(temporary / NOTES_FILE, notes)
        checksums = {path.name: sha256_of(path) for path in sorted(temporary.iterdir())}
        _write_json(temporary / CHECKSUMS_FILE, checksums)


def load_bundle(folder: Path, verification: Verification | None = None) -> Bundle:
    """Read and verify a bundle.

    Args:
        verification: that began before, and has this folder among others.

    Raises:
        CheckpointError: the folder is no bundle, a file of it is missing or damaged, or its settings do not fit its
            weights; names the file. Nothing is built before that is known.
    """
    if verification is None:
        verify(folder)
    else:
        verification.finish(folder)
    config = parse_config(load_yaml(folder / CONFIG_FILE), name=str(folder / CONFIG_FILE))
    vocab = Vocabulary.load(folder / VOCAB_FILE)
    check_fit(folder / MODEL_FILE, config.model, vocab.size)
    return Bundle(folder, config, vocab, _load_tensors(folder / MODEL_FILE))


def load_training_state(folder: Path) -> TrainingState:
    """Read the training state of a checkpoint that was verified before.

    Raises:
        CheckpointError: the folder holds a bundle alone, or its training state is damaged.
    """
    if not (folder / TRAINING_STATE_FILE).is_file():
        raise CheckpointError(
            f"{folder}: holds a model but no training state, so training cannot resume from it. "
            "Name a checkpoint of a run (RUN/checkpoints/step-…)."
        )
    try:
        values = parse_json((folder / TRAINING_STATE_FILE).read_bytes())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / TRAINING_STATE_FILE} is damaged: {error} {_ANOTHER_CHECKPOINT}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{folder / TRAINING_STATE_FILE} is damaged: not a mapping. {_ANOTHER_CHECKPOINT}")
    return TrainingState(_load_tensors(folder / TRAINING_TENSORS_FILE), values)


def _load_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return {current_name(name): tensor for name, tensor in load_file(path).items()}
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
