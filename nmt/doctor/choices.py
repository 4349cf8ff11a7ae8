"""Which choices the program makes on this machine, why, and whether the figures agree with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from nmt.device import BASE_PRODUCT, Hardware, computes
from nmt.doctor.rates import BEAM
from nmt.doctor.speeds import COMPARED, TrainingSpeed, TranslatingSpeed
from nmt.kernels.attention import cpu_attention, fused_attention, is_fused_in_inference, two_product_attention
from nmt.kernels.int8 import OnednnProduct, fastest_int8_product, onednn_speedup
from nmt.kernels.policy import choose_kernels
from nmt.model.masks import Attention

# A choice within this share of the fastest one is right: repeated measurements differ by as much.
_AS_FAST = 0.9


@dataclass(frozen=True)
class Choice:
    """One choice."""

    subject: str
    taken: str
    reason: str
    measured: dict[str, float]
    """What each of the possible choices reached; more is better."""
    unit: str
    is_right: bool | None
    """Whether what is taken is the fastest, or as fast; None if there was nothing to compare."""


def judged(subject: str, taken: str, reason: str, measured: dict[str, float], unit: str) -> Choice:
    """A choice, judged by what was measured."""
    return Choice(subject, taken, reason, measured, unit, is_fastest(taken, measured))


def is_fastest(taken: str, measured: Mapping[str, float]) -> bool | None:
    """Whether one of the measured choices is the fastest, or as fast within the error of measurement."""
    if taken not in measured or len(measured) < 2:
        return None
    return measured[taken] >= _AS_FAST * max(measured.values())


def choices(
    small: Hardware,
    base: Hardware,
    training_attention_seconds: Mapping[str, float],
    search_attention_seconds: Mapping[str, float],
    training: Sequence[TrainingSpeed],
    translating: Sequence[TranslatingSpeed],
) -> list[Choice]:
    """The choices, with what was measured of each.

    Args:
        small, base: what the program chooses for models of these sizes.
        training_attention_seconds, search_attention_seconds: of each form of attention.
    """
    kernel = choose_kernels(base.device).attention
    compared = [speed for speed in training if speed.toolkit == "nmt" and speed.preset == COMPARED]
    ours = [speed for speed in translating if speed.contestant.startswith("nmt ")]
    exact = [speed for speed in ours if speed.precision != "int8"]
    return [
        judged(
            "precision of training",
            small.precision,
            small.reason,
            {speed.precision: speed.tokens_per_second for speed in compared},
            f"target tokens/s, {COMPARED}",
        ),
        judged(
            "precision of translating",
            base.precision,
            f"{base.reason}; int8 rounds more, so it is used only if asked for",
            {speed.precision: speed.beam_tokens_per_second for speed in exact},
            f"target tokens/s, base, beam {BEAM}",
        ),
        *_int8_products(base),
        judged(
            "attention in training",
            _form(kernel, base.products_dtype, learns=True),
            f"the form for {base.device.type}",
            _rates(training_attention_seconds),
            "batches/s, with gradient",
        ),
        _attention_in_a_search(base, _form(kernel, base.products_dtype, learns=False), search_attention_seconds),
    ]


def _form(kernel: Attention | None, dtype: torch.dtype, *, learns: bool) -> str:
    """The name of the form of attention that a kernel computes."""
    if kernel is cpu_attention:
        kernel = fused_attention if is_fused_in_inference(dtype) and not learns else two_product_attention
    names: dict[Attention | None, str] = {two_product_attention: "two products", fused_attention: "fused"}
    return names.get(kernel, "plain")


def _rates(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: 1 / value for name, value in seconds.items()}


def _attention_in_a_search(hardware: Hardware, taken: str, seconds: Mapping[str, float]) -> Choice:
    subject, unit = "attention in a search", f"steps/s, beam {BEAM}"
    if hardware.device.type == "cpu" and hardware.precision != "bf16":
        # It is not chosen for its speed, so no figure makes it wrong.
        reason = "by it, a line's translation does not depend on the lines beside it"
        return Choice(subject, taken, reason, _rates(seconds), unit, is_right=None)
    return judged(subject, taken, f"the form for {hardware.device.type} in {hardware.precision}", _rates(seconds), unit)


def _int8_products(hardware: Hardware) -> list[Choice]:
    """The library that multiplies int8, where there are two."""
    speedup = onednn_speedup(*BASE_PRODUCT) if computes(hardware.device, "int8") else 0.0
    if not speedup:
        return []
    taken = "oneDNN" if fastest_int8_product(*BASE_PRODUCT) is OnednnProduct else "FBGEMM"
    reason = (
        "oneDNN needs a second copy of the weights, so it must be clearly faster; FBGEMM multiplies few rows anyway"
    )
    return [
        judged(
            "int8 products of many rows", taken, reason, {"FBGEMM": 1.0, "oneDNN": speedup}, "times the speed of FBGEMM"
        )
    ]
