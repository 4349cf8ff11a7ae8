"""The implementations that a model computes with, where there are several: chosen for a device, and given to the model.

Each gives the result of the plain one within rounding; tests run with every choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from nmt.kernels.attention import cpu_attention, fused_attention, two_product_attention
from nmt.kernels.dropout import Dropout
from nmt.kernels.flash_attention import flash_attention, suits_packed_attention, try_attention
from nmt.kernels.int8 import may_use_onednn
from nmt.kernels.recording import Recorder, cuda_recorder_if_possible
from nmt.machine.device import is_out_of_memory
from nmt.model.attention import MultiHeadAttention, choose_attention
from nmt.model.masks import Attention, StepAttention
from nmt.model.packing import PackedAttention, PackedSequences
from nmt.model.transformer import LogitsSummary, Transformer

_ROWS_PER_OCTAVE_ON_CPU, _ROWS_PER_OCTAVE_ON_GPU = 8, 16
_NEAR = 1e-3
# On a GPU.
_STEPS_PER_LOOK = 8
_AMPERE = (8, 0)
# Longer sequences are for flash attention. Its tiles are 128 long, those of the kernel for sentences 64: for 30 pieces
# it computes four times as many scores, around 512 only an eighth more. And one program computes a sentence and head:
# 25,000 pieces in sentences of 512 with 8 heads are 390 programs, three for each of the 132 processors of an H100; in
# sentences of twice that length there would not be two.
_LONGEST_SENTENCE = 512

Kernel = TypeVar("Kernel")


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
    step_attention: StepAttention | None = None
    """Equation 1 in a recorded step of a search; None if ``attention`` computes it, over all slots."""
    summarize_logits: LogitsSummary | None = None
    """Reads all logits once for a step of a search; None if torch's operations do."""


def accelerate(model: Transformer, kernels: Kernels) -> Transformer:
    """Let a model compute with some implementations, and return it. Its weights and their names stay."""
    is_dot_product = model.config.attention != "additive"
    for module in list(model.modules()):
        if isinstance(module, MultiHeadAttention) and is_dot_product and kernels.attention is not None:
            module.attention = choose_attention(model.config, kernels.attention)
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, kernels.dropout(child.p).train(child.training))
    is_suited = suits_packed_attention(model.config)
    model.packed_attention = kernels.packed_attention if is_suited else None
    model.step_attention = kernels.step_attention if is_suited else None
    model.rows_per_octave = kernels.rows_per_octave
    model.steps_per_look, model.recorder = kernels.steps_per_look, kernels.recorder
    model.summarize_logits = kernels.summarize_logits
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
        packed_attention=packed_attention_if_possible(device, products, deterministic=deterministic),
        rows_per_octave=_ROWS_PER_OCTAVE_ON_GPU,
        steps_per_look=_STEPS_PER_LOOK,
        recorder=cuda_recorder_if_possible(device) if device.type == "cuda" else None,
        step_attention=_if_it_computes(_step_attention, device, products),
        summarize_logits=_if_it_computes(_logits_summary, device, products),
    )


def packed_attention_if_possible(
    device: torch.device, products: torch.dtype | None, *, deterministic: bool = False
) -> PackedAttention | None:
    """Attention without padding, if this GPU and what is installed can compute it in this dtype."""
    attend = _if_it_computes(_sentence_attention, device, products)
    if deterministic:  # flash attention sums gradients in an order that differs
        return attend
    find_flash_attention = partial(_if_it_computes, _flash_attention, device, products)
    return find_flash_attention() if attend is None else AttentionByLength(attend, find_flash_attention)


class AttentionByLength:
    """The kernel for sentences; for longer sequences flash attention, which is imported when one occurs."""

    def __init__(self, of_sentences: PackedAttention, find_for_longer: Callable[[], PackedAttention | None]) -> None:
        self._of_sentences = of_sentences
        self._find_for_longer = find_for_longer
        self._for_longer: PackedAttention | None = None

    def __call__(
        self,
        query_NHK: Tensor,
        key_MHK: Tensor,
        value_MHK: Tensor,
        queries: PackedSequences,
        keys: PackedSequences,
        is_causal: bool,
    ) -> Tensor:
        attend = self._of_sentences
        if max(queries.max_seqlen, keys.max_seqlen) > _LONGEST_SENTENCE:
            # A compiler cannot trace a trial. The kernel for sentences computes any length.
            if self._for_longer is None and not torch.compiler.is_compiling():
                self._for_longer = self._find_for_longer() or attend
            attend = self._for_longer or attend
        return attend(query_NHK, key_MHK, value_MHK, queries, keys, is_causal)


def _if_it_computes(
    find: Callable[[torch.device, torch.dtype], Kernel | None], device: torch.device, products: torch.dtype | None
) -> Kernel | None:
    """A kernel that is found and tried, on a GPU from Ampere on in 16 bits."""
    if products is None or products.itemsize != 2 or device.type != "cuda" or not torch.cuda.is_available():
        return None
    if torch.cuda.get_device_capability(device) < _AMPERE:
        return None
    try:
        return find(device, products)
    except Exception as error:  # there is no Triton, or a compiler, a library or a driver fails in its own way
        if is_out_of_memory(error):
            raise
        return None


def _logits_summary(device: torch.device, dtype: torch.dtype) -> LogitsSummary | None:
    from nmt.kernels.logits import summarize_logits

    normalizer_N1, _ = summarize_logits(torch.zeros(1, 64, dtype=dtype, device=device), 64)
    return summarize_logits if abs(normalizer_N1.item() - math.log(64)) < _NEAR else None


def _step_attention(device: torch.device, dtype: torch.dtype) -> StepAttention | None:
    from nmt.kernels.step_attention import step_attention

    heads_BHWK, mask_BWX = torch.ones(1, 1, 4, 64, dtype=dtype, device=device), torch.zeros(1, 4, 4, device=device)
    length_1 = torch.zeros(1, dtype=torch.int64, device=device)
    mixed_BHWK = step_attention(heads_BHWK, heads_BHWK, heads_BHWK, mask_BWX.to(dtype), length_1)
    return step_attention if (mixed_BHWK - 1).abs().max().item() < _NEAR else None


def _sentence_attention(device: torch.device, dtype: torch.dtype) -> PackedAttention | None:
    from nmt.kernels.sentence_attention import sentence_attention

    try_attention(sentence_attention, device, dtype)
    return sentence_attention


def _flash_attention(device: torch.device, dtype: torch.dtype) -> PackedAttention | None:
    if (attend := flash_attention()) is not None:
        try_attention(attend, device, dtype)
    return attend
