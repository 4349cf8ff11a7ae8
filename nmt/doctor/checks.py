"""Whether this machine computes right: each check compares what training or translating does with what it must give."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.config import Config, parse_config
from nmt.data.batching import Batch
from nmt.data.vocab import Vocabulary
from nmt.kernels.attention import fused_attention, two_product_attention
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.machine.device import Hardware, choose_hardware
from nmt.model.attention import attention
from nmt.model.masks import Attention
from nmt.model.transformer import Transformer
from nmt.option_fields import Precision
from nmt.training.input.model_inputs import model_inputs
from nmt.training.model_loss import batch_losses

VOCAB_SIZE = 500
"""The pieces of the small models."""
_SIZES = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "d_ff": 128, "heads": 4, "dropout": 0.0}
# The greatest relative difference of loss and gradients.
_ALLOWED: dict[Precision, float] = {"fp32": 1e-4, "bf16": 5e-2, "fp16": 1e-2}


@dataclass(frozen=True)
class Check:
    """A comparison, and whether it came out as it must."""

    name: str
    passed: bool
    detail: str
    """What was found, and what is allowed."""


def small_config() -> Config:
    """The settings of a model that computes in milliseconds, without dropout."""
    return parse_config({"model": _SIZES}, name="the doctor's model")


def random_batch(pairs: int, longest: int) -> Batch:
    """Sentences of random pieces and of lengths from 2 to ``longest``."""
    draw = np.random.default_rng(1)
    sides = []
    for _ in ("source", "target"):
        lengths_B = draw.integers(2, longest + 1, pairs)
        lengths_B[0] = longest
        sides.append((draw.integers(Vocabulary.EOS + 1, VOCAB_SIZE, lengths_B.sum()), lengths_B))
    (source_M, source_lengths_B), (target_N, target_lengths_B) = sides
    return Batch(source_M, target_N, target_N, source_lengths_B, target_lengths_B)


def check_gradients(hardware: Hardware) -> list[Check]:
    """Loss and gradients with this machine's kernels, in fp32 and in the precision of training, compared with the plain
    equations in float64."""
    precisions: list[Precision] = ["fp32", hardware.precision]
    return [_check_gradients(hardware, name) for name in dict.fromkeys(precisions) if name in _ALLOWED]


def _check_gradients(hardware: Hardware, precision: Precision) -> Check:
    batch, config = random_batch(24, 20), small_config()
    torch.manual_seed(1)
    exact = Transformer(config.model, VOCAB_SIZE).double().train()
    used = choose_hardware(hardware.device.type, precision, hardware.threads)  # type: ignore[arg-type]
    kernels = choose_kernels(hardware.device, used.autocast_dtype)
    model = accelerate(Transformer(config.model, VOCAB_SIZE), kernels).train()
    model.load_state_dict(exact.state_dict())
    in_float64 = choose_hardware("cpu", "fp64", hardware.threads)
    with _without_tf32():
        loss, gradients = _gradients(model.to(hardware.device), batch, used)
    exact_loss, exact_gradients = _gradients(exact, batch, in_float64)
    off = (gradients - exact_gradients).norm().item() / exact_gradients.norm().item()
    loss_off, allowed = abs(loss - exact_loss) / exact_loss, _ALLOWED[precision]
    return Check(
        f"loss and gradients in {precision} against float64",
        off <= allowed and loss_off <= allowed,
        f"loss differs by {loss_off:.1e} of itself, gradients by {off:.1e}; allowed {allowed:.0e}",
    )


@contextmanager
def _without_tf32() -> Iterator[None]:
    """Let a GPU multiply fp32 exactly: training lets it round the factors to TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _gradients(model: Transformer, batch: Batch, hardware: Hardware) -> tuple[float, Tensor]:
    losses = batch_losses(model, batch, 0.1, hardware)
    losses.smoothed.backward()  # type: ignore[no-untyped-call]
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return losses.smoothed.item(), torch.cat([gradient.cpu().double().flatten() for gradient in gradients])


def check_attention(hardware: Hardware) -> list[Check]:
    """Each form of attention in fp32, and that of searches in bf16, compared with equation 1 in float64."""
    torch.manual_seed(1)
    query, key, value = (torch.randn(4, 8, 30, 64, dtype=torch.float64) for _ in "QKV")
    mask = torch.zeros(4, 1, 1, 30, dtype=torch.float64)
    mask[1:, ..., 20:] = torch.finfo(torch.float32).min
    exact = attention(query, key, value, mask)

    def check(name: str, form: Attention, dtype: torch.dtype, allowed: float) -> Check:
        q, k, v, m = (tensor.to(hardware.device, dtype) for tensor in (query, key, value, mask))
        with torch.inference_mode(), _without_tf32():
            off = ((form(q, k, v, m, 0.0).cpu().double() - exact).norm() / exact.norm()).item()
        detail = f"differs by {off:.1e} of its norm; allowed {allowed:.0e}"
        return Check(f"attention ({name}) against float64", off <= allowed, detail)

    checks = [
        check("two products", two_product_attention, torch.float32, 1e-5),
        check("fused", fused_attention, torch.float32, 1e-5),
    ]
    kernel = choose_kernels(hardware.device).attention
    if hardware.precision == "bf16" and kernel is not None:
        checks.append(check("of searches, bf16", kernel, torch.bfloat16, 1e-2))
    return checks


def check_steps(hardware: Hardware) -> list[Check]:
    """Decoding step by step, with keys and values kept, gives what decoding the whole target gives."""
    with torch.inference_mode(), _without_tf32():
        return [_check_steps(hardware)]


def _check_steps(hardware: Hardware) -> Check:
    config, batch = small_config(), random_batch(8, 12)
    torch.manual_seed(1)
    model = accelerate(Transformer(config.model, VOCAB_SIZE), choose_kernels(hardware.device))
    model = model.to(hardware.device).eval()
    inputs = model_inputs(batch, hardware.device, model.size_of)
    slots = inputs.target.slots
    target_BT = slots.pad(inputs.target.tokens_N[:, None])[:, :, 0]
    encoded = model.encode(inputs.source)
    whole_BTV = slots.pad(model.decode(inputs.target, encoded).log_softmax(-1))
    state, differences = model.start(encoded, beam=1, room=target_BT.shape[1]), []
    for position in range(target_BT.shape[1]):
        logits_BV = model.step(target_BT[:, position : position + 1], state, position)
        is_piece_B = target_BT[:, position] != Vocabulary.PAD
        differences.append((logits_BV.log_softmax(-1) - whole_BTV[:, position])[is_piece_B].abs().amax())
    off, allowed = torch.stack(differences).max().item(), 1e-4
    detail = f"log-probabilities differ by at most {off:.1e}; allowed {allowed:.0e}"
    return Check("cached steps against whole targets", off <= allowed, detail)
