"""The losses of a model on a batch: the label-smoothed one, and those that are added to it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from nmt.data.batching import Batch
from nmt.machine.device import Hardware
from nmt.model.guiding import Guide
from nmt.model.transformer import Transformer
from nmt.training.input.model_inputs import ModelInputs, model_inputs
from nmt.training.loss import Losses, label_smoothed_loss, r_drop_loss


def batch_losses(model: Transformer, batch: Batch, label_smoothing: float, hardware: Hardware) -> Losses:
    """Run the model on a batch and compute the two sums of its loss."""
    with hardware.autocast():
        return losses_of_inputs(model, model_inputs(batch, hardware.device, model.size_of), label_smoothing)


def losses_of_inputs(
    model: Transformer, inputs: ModelInputs, label_smoothing: float, guide: Guide | None = None
) -> Losses:
    """As :func:`batch_losses`, of a batch that is on the device."""
    return label_smoothed_loss(model(inputs.source, inputs.target, guide), inputs.target_output_N, label_smoothing)


def losses_of_two_passes(
    model: Transformer, inputs: ModelInputs, label_smoothing: float, guide: Guide | None = None, *, weight: float
) -> Losses:
    """As :func:`losses_of_inputs`, with the loss of R-Drop: each batch goes through the model twice, with different
    dropout."""
    one_NV, other_NV = (model(inputs.source, inputs.target, guide) for _ in range(2))
    return r_drop_loss(one_NV, other_NV, inputs.target_output_N, label_smoothing, weight)


def guided_losses(
    losses: Callable[..., Losses], model: Transformer, inputs: ModelInputs, label_smoothing: float, *, weight: float
) -> Losses:
    """Losses with that of the alignment of one head added to the smoothed loss, times a weight."""
    assert model.config.alignment_layer is not None  # only such models are guided
    found = losses(model, inputs, label_smoothing, guide := Guide(model.config.alignment_layer))
    # The pairs that memory is tried with are not aligned.
    aligned_N = torch.zeros_like(inputs.target_output_N) if inputs.aligned_N is None else inputs.aligned_N
    return found._replace(smoothed=found.smoothed + weight * guide.loss(aligned_N, inputs.target.slots))
