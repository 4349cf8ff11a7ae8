"""A batch on its way to the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.data.batching import Batch
from nmt.model.packing import Lengths, PackedSequences, PackedSize, filled


@dataclass(frozen=True)
class ModelInputs:
    """What the model and the loss take."""

    source: PackedSequences
    """Pieces + eos of each sentence."""
    target: PackedSequences
    """bos + pieces of each sentence."""
    target_output_N: Tensor
    """Pieces + eos of each sentence; padding at spare rows."""


def model_inputs(batch: Batch, device: torch.device, size_of: Callable[[Lengths], PackedSize]) -> ModelInputs:
    """Bring a batch to a device. The host does not wait for it.

    Args:
        size_of: what sentences of given lengths are filled up to.
    """
    source_size, target_size = size_of(batch.source_lengths_B), size_of(batch.target_lengths_B)
    return ModelInputs(
        PackedSequences.of(batch.source_M, batch.source_lengths_B, device, source_size),
        PackedSequences.of(batch.target_input_N, batch.target_lengths_B, device, target_size),
        filled(batch.target_output_N, target_size.rows, device),
    )
