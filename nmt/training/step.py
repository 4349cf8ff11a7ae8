"""One update: gradients summed over micro-batches, divided once by the target tokens, then Adam (section 5.3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nmt.config import OptimizerConfig
from nmt.data.batching import Batch
from nmt.device import Hardware
from nmt.model.transformer import PAD
from nmt.training.loss import Losses, label_smoothed_loss


@dataclass(frozen=True)
class UpdateResult:
    """What an update came to; means over its target tokens, in nats."""

    smoothed_loss: float
    cross_entropy: float
    target_tokens: int
    source_tokens: int


def make_optimizer(model: nn.Module, settings: OptimizerConfig) -> torch.optim.Adam:
    """Adam over all parameters, in one fused pass where the device has it."""
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    betas = (settings.beta1, settings.beta2)
    return torch.optim.Adam(model.parameters(), lr=0.0, betas=betas, eps=settings.epsilon, fused=fused)


def take_update(
    model: nn.Module,
    optimizer: torch.optim.Adam,
    batches: Sequence[Batch],
    *,
    update: int,
    learning_rate: float,
    label_smoothing: float,
    seed: int,
    hardware: Hardware,
) -> UpdateResult:
    """Make one update of the parameters.

    Every random number of micro-batch i is drawn from (seed, update, i), so an update that is done again, after a
    crash or from a checkpoint, draws the same.
    """
    target_tokens = sum(batch.target_tokens for batch in batches)
    smoothed = cross_entropy = 0.0
    for index, batch in enumerate(batches):
        torch.manual_seed(derived_seed(seed, update, 0, index))
        losses = batch_losses(model, batch, label_smoothing, hardware)
        (losses.smoothed / target_tokens).backward()  # type: ignore[no-untyped-call]
        smoothed += losses.smoothed.item()
        cross_entropy += losses.cross_entropy.item()
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    source_tokens = sum(int((batch.source_BS != PAD).sum()) for batch in batches)
    return UpdateResult(smoothed / target_tokens, cross_entropy / target_tokens, target_tokens, source_tokens)


def batch_losses(model: nn.Module, batch: Batch, label_smoothing: float, hardware: Hardware) -> Losses:
    """Run the model on a batch; the two sums of its loss."""
    to_device = [
        torch.from_numpy(array).to(hardware.device)
        for array in (batch.source_BS, batch.target_input_BT, batch.target_output_BT)
    ]
    with torch.autocast(hardware.device.type, torch.bfloat16, enabled=hardware.precision == "bf16"):
        logits_BTV = model(to_device[0], to_device[1])
        return label_smoothed_loss(logits_BTV, to_device[2], label_smoothing)


def derived_seed(*parts: int) -> int:
    """A seed of 63 bits that depends on all of the parts, and on nothing else."""
    digest = hashlib.sha256(",".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Adam) -> dict[str, Tensor]:
    """Adam's moments by parameter name."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for moment in ("exp_avg", "exp_avg_sq"):
            if parameter in optimizer.state:
                tensors[f"{moment}.{name}"] = optimizer.state[parameter][moment]
    return tensors


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Adam, tensors: Mapping[str, Tensor], updates: int
) -> None:
    """Put Adam where it was after ``updates`` updates."""
    for name, parameter in model.named_parameters():
        if f"exp_avg.{name}" not in tensors:
            continue
        optimizer.state[parameter] = {
            "step": torch.tensor(float(updates), device=parameter.device if optimizer.defaults["fused"] else "cpu"),
            "exp_avg": tensors[f"exp_avg.{name}"].to(parameter.device),
            "exp_avg_sq": tensors[f"exp_avg_sq.{name}"].to(parameter.device),
        }


def perplexity(cross_entropy: float) -> float:
    """exp of a mean cross-entropy; infinite where that is too much for a float."""
    return math.exp(cross_entropy) if cross_entropy < 700 else math.inf
