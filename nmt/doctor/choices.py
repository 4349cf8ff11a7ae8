"""Which choices the program makes on this machine, why, and whether the figures agree with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nmt.device import Hardware, computes
from nmt.doctor.speeds import BEAM, COMPARED, TrainingSpeed, TranslatingSpeed
from nmt.kernels.attention import cpu_attention, fused_attention, is_fused_in_searches, two_product_attention
from nmt.kernels.int8 import OnednnProduct, fastest_int8_product, onednn_speedup
from nmt.kernels.policy import choose_kernels

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
    attention_seconds: Mapping[str, float],
    search_attention_seconds: Mapping[str, float],
    training: Sequence[TrainingSpeed],
    translating: Sequence[TranslatingSpeed],
) -> list[Choice]:
    """The choices, with what was measured of each.

    Args:
        small, base: what the program chooses for models of these sizes.
        attention_seconds, search_attention_seconds: of each form, in training and in a search.
    """
    form = {
        cpu_attention: "two products",
        two_product_attention: "two products",
        fused_attention: "fused",
        None: "plain",
    }
    kernel = choose_kernels(base.device).attention
    is_fused = kernel is cpu_attention and is_fused_in_searches(base.products_dtype)
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
            form[kernel],  # type: ignore[index]
            f"the form for {base.device.type}",
            {name: 1 / seconds for name, seconds in attention_seconds.items()},
            "batches/s, with gradient",
        ),
        judged(
            "attention in a search",
            "fused" if is_fused else form[kernel],  # type: ignore[index]
            f"the form for {base.device.type} in {base.precision}",
            {name: 1 / seconds for name, seconds in search_attention_seconds.items()},
            f"steps/s, beam {BEAM}",
        ),
    ]


def _int8_products(hardware: Hardware) -> list[Choice]:
    """The library that multiplies int8, where there are two."""
    speedup = onednn_speedup() if computes(hardware.device, "int8") else 0.0
    if not speedup:
        return []
    taken = "oneDNN" if fastest_int8_product() is OnednnProduct else "FBGEMM"
    reason = "FBGEMM multiplies few rows in any case, so oneDNN must be clearly faster with many"
    return [judged("int8 products", taken, reason, {"FBGEMM": 1.0, "oneDNN": speedup}, "times the speed of FBGEMM")]
