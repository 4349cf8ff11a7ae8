"""The implementations that a model computes with, where there are several: chosen for a device, and given to the model.

Each gives the result of the plain one within rounding; tests run with every choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from nmt.kernels.attention import cpu_attention, fused_attention, two_product_attention
from nmt.kernels.dropout import Dropout
from nmt.kernels.flash_attention import flash_attention_if_possible, suits_flash_attention
from nmt.kernels.int8 import may_use_onednn
from nmt.kernels.recording import Recorder, cuda_recorder_if_possible
from nmt.model.attention import MultiHeadAttention, choose_attention
from nmt.model.masks import Attention
from nmt.model.packing import PackedAttention
from nmt.model.transformer import Transformer

_ROWS_PER_OCTAVE_ON_CPU, _ROWS_PER_OCTAVE_ON_GPU = 8, 16
# On a GPU.
_STEPS_PER_LOOK = 8


@dataclass(frozen=True)
class Kernels:
    """One implementation for each place; by default the plain ones."""

    attention: Attention | None = None
    """Equation 1, called as :func:`nmt.model.attention.attention`; None for that function."""
    packed_attention: PackedAttention | None = None
    """Equation 1 within packed sequences; None if sentences are padded for attention."""
    dropout: Callable[[float], nn.Module] = nn.Dropout
    """Makes a dropout module for a probability."""
    rows_per_octave: int | None = None
    """The numbers of rows are rounded up, if given; see :func:`~nmt.model.packing.rounded_up`."""
    steps_per_look: int = 1
    """Steps of a search after which the host looks at its pieces; it waits for the device then."""
    recorder: Callable[[], Recorder] | None = None
    """Makes a recorder of work that the device then runs whole; None if the device has none."""


def accelerate(model: Transformer, kernels: Kernels) -> Transformer:
    """Let a model compute with some implementations, and return it. Its weights and their names stay."""
    is_dot_product = model.config.attention != "additive"
    for module in list(model.modules()):
        if isinstance(module, MultiHeadAttention) and is_dot_product and kernels.attention is not None:
            module.attention = choose_attention(model.config, kernels.attention)
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, kernels.dropout(child.p).train(child.training))
    model.packed_attention = kernels.packed_attention if suits_flash_attention(model.config) else None
    model.rows_per_octave = kernels.rows_per_octave
    model.steps_per_look, model.recorder = kernels.steps_per_look, kernels.recorder
    return model


def choose_kernels(
    device: torch.device | None, products: torch.dtype | None = None, *, deterministic: bool = False
) -> Kernels:
    """The fastest kernels for a device; None means a CPU.

    Args:
        products: the dtype that weights are prepacked for (:func:`nmt.kernels.prepacking.prepack`), or that of
            autocast; None if products are plain.
        deterministic: choose only kernels that give the same bits every time.
    """
    if device is None or device.type == "cpu":
        # oneDNN compiles a product for each number of rows, in bf16 or with prepacked weights. This takes milliseconds,
        # and with prepacked weights half a megabyte that is never freed.
        is_by_onednn = products is not None and (products != torch.int8 or may_use_onednn())
        rows_per_octave = _ROWS_PER_OCTAVE_ON_CPU if is_by_onednn else None
        return Kernels(cpu_attention, dropout=Dropout, rows_per_octave=rows_per_octave)
    # The gradient of a GPU's fused attention with a mask is summed in an order that differs.
    is_fused = device.type == "cuda" and not deterministic
    return Kernels(
        fused_attention if is_fused else two_product_attention,
        packed_attention=flash_attention_if_possible(device, products) if is_fused else None,
        rows_per_octave=_ROWS_PER_OCTAVE_ON_GPU,
        steps_per_look=_STEPS_PER_LOOK,
        recorder=cuda_recorder_if_possible(device) if device.type == "cuda" else None,
    )
