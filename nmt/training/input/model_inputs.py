"""A batch on its way to the model: made on the host, ahead of time, then brought to the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nmt.data.batching import Batch
from nmt.machine.device import to_device
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
    aligned_N: Tensor | None = None
    """As :attr:`~nmt.data.batching.Batch.aligned_N`; 0 at spare rows."""

    @staticmethod
    def of(batch: Batch, source_size: PackedSize, target_size: PackedSize) -> ModelInputs:
        """The inputs of a batch, on the host, filled up to these sizes."""
        return ModelInputs(
            PackedSequences.of(batch.source_M, batch.source_lengths_B, source_size),
            PackedSequences.of(batch.target_input_N, batch.target_lengths_B, target_size),
            filled(batch.target_output_N, target_size.rows),
            None if batch.aligned_N is None else filled(batch.aligned_N, target_size.rows),
        )

    def moved(self, move: Callable[[Tensor], Tensor]) -> ModelInputs:
        """The same with other tensors."""
        aligned_N = None if self.aligned_N is None else move(self.aligned_N)
        return ModelInputs(self.source.moved(move), self.target.moved(move), move(self.target_output_N), aligned_N)

    def to(self, device: torch.device) -> ModelInputs:
        """The same on a device. The host does not wait for it."""
        return self.moved(lambda tensor: to_device(tensor, device))


@dataclass(frozen=True)
class PreparedBatch(Batch):
    """A batch with its inputs, in memory that a GPU reads while the host goes on."""

    inputs: ModelInputs
    tokens: int
    """The pieces of one side that count towards the maximum of a micro-batch: with padding or spare rows."""

    @staticmethod
    def of(batch: Batch, inputs: ModelInputs, device: torch.device, tokens: int) -> PreparedBatch:
        """A batch whose inputs are ready for a device. Any thread may call this."""
        if device.type == "cuda":
            inputs = inputs.moved(Tensor.pin_memory)
        values = {field.name: getattr(batch, field.name) for field in fields(Batch)}
        return PreparedBatch(**values, inputs=inputs, tokens=tokens)


def model_inputs(batch: Batch, device: torch.device, size_of: Callable[[Lengths], PackedSize]) -> ModelInputs:
    """The inputs of a batch on a device.

    Args:
        size_of: what sentences of given lengths are filled up to, in a batch that was not prepared.
    """
    if isinstance(batch, PreparedBatch):
        return batch.inputs.to(device)
    return ModelInputs.of(batch, size_of(batch.source_lengths_B), size_of(batch.target_lengths_B)).to(device)
