"""How fast this machine computes: matrix products in each type, copies of memory, and the forms of attention."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.device import BASE_PRODUCT, EMULATED, Hardware, bf16_speedup, computes, synchronize
from nmt.kernels.attention import fused_attention, two_product_attention
from nmt.kernels.prepacking import prepacked
from nmt.model.attention import attention
from nmt.model.masks import Attention
from nmt.option_fields import Precision

BEAM = 4
"""Beam size of searches that are measured."""
_TRIALS = 5
# Rows of a product: a beam of one sentence, a batch of hypotheses, a micro-batch of training.
_ROWS = (4, 256, 3_600)
_COPIED_NUMBERS = 1 << 26
# Sizes of attention: those of the base model, and a batch of common size.
_HEADS, _SIZE, _KEYS = 8, 64, 30
_TRAINING_SENTENCES, _SEARCHED_SENTENCES = 64, 8


@dataclass(frozen=True)
class ProductRate:
    """The rate of one product, rows by d_model with d_model by d_ff of the paper's base model."""

    precision: Precision
    rows: int
    threads: int
    operations_per_second: float


def product_rates(hardware: Hardware) -> list[ProductRate]:
    """The rates of products with prepacked weights and random numbers, on one thread and on all of them.

    Types that the device does not multiply, or only by emulation, are left out.
    """
    is_cpu = hardware.device.type == "cpu"
    if hardware.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # as training in fp32 does
    rates = []
    try:
        with torch.inference_mode():
            for threads in dict.fromkeys([1, hardware.threads]) if is_cpu else [hardware.threads]:
                torch.set_num_threads(threads)
                for precision, dtype in _types(hardware).items():
                    rates += [
                        ProductRate(precision, rows, threads, _product_rate(rows, dtype, hardware.device))
                        for rows in _ROWS
                    ]
    finally:
        torch.set_num_threads(hardware.threads)
    return rates


def _types(hardware: Hardware) -> Mapping[Precision, torch.dtype]:
    if hardware.device.type != "cpu":
        candidates: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
    else:
        # If bf16 is emulated, a single large product would take seconds.
        is_emulated = bf16_speedup(*BASE_PRODUCT) < EMULATED
        candidates = {"int8": torch.int8} if is_emulated else {"bf16": torch.bfloat16, "int8": torch.int8}
    types: dict[Precision, torch.dtype] = {"fp32": torch.float32}
    return types | {name: dtype for name, dtype in candidates.items() if computes(hardware.device, name)}


def _product_rate(rows: int, dtype: torch.dtype, device: torch.device) -> float:
    d_model, d_ff = BASE_PRODUCT
    weight = prepacked(torch.randn(d_ff, d_model, device=device), None, dtype)
    x = torch.randn(rows, d_model, device=device).to(torch.float32 if dtype == torch.int8 else dtype)
    return 2 * rows * d_model * d_ff / _seconds(lambda: weight.multiply(x), device)


def memory_bandwidth(hardware: Hardware) -> float:
    """Bytes per second that a copy of a large tensor reads and writes, on all threads."""
    source = torch.zeros(_COPIED_NUMBERS, device=hardware.device)
    target = torch.ones_like(source)
    return 2 * 4 * _COPIED_NUMBERS / _seconds(lambda: target.copy_(source), hardware.device)


def training_attention_seconds(hardware: Hardware) -> dict[str, float]:
    """Seconds of attention with its gradient, in each of its forms, over a batch of common size."""
    query, key, value = (
        _random(hardware, _TRAINING_SENTENCES, _HEADS, _KEYS, _SIZE).requires_grad_() for _ in range(3)
    )
    mask = _no_mask(hardware, _TRAINING_SENTENCES)
    return _seconds_by_form(
        lambda form: form(query, key, value, mask, 0.1).sum().backward(),  # type: ignore[no-untyped-call]
        hardware,
    )


def search_attention_seconds(hardware: Hardware) -> dict[str, float]:
    """Seconds of attention in a step of a search, in each of its forms."""
    # As in a search, queries are parts of a projection, and keys and values of longer buffers.
    projected = _random(hardware, _SEARCHED_SENTENCES, BEAM, _HEADS, 3 * _SIZE)
    query = projected[..., :_SIZE].transpose(1, 2)
    key, value = (_random(hardware, _SEARCHED_SENTENCES, _HEADS, 2 * _KEYS, _SIZE)[:, :, :_KEYS] for _ in range(2))
    mask = _no_mask(hardware, _SEARCHED_SENTENCES)
    with torch.inference_mode():
        return _seconds_by_form(lambda form: form(query, key, value, mask, 0.0), hardware)


def fused_attention_library(hardware: Hardware) -> str:
    """What torch's fused attention computes a padded training batch by, as torch names it."""
    query, key, value = (
        _random(hardware, _TRAINING_SENTENCES, _HEADS, _KEYS, _SIZE).requires_grad_() for _ in range(3)
    )
    with _AttentionCalls() as calls:  # type: ignore[no-untyped-call]
        fused_attention(query, key, value, _no_mask(hardware, _TRAINING_SENTENCES), 0.0)
    return calls.found or "two products"


class _AttentionCalls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operation that attention is dispatched to."""

    found = ""

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        name = str(operation).split(".")[1]
        if name.startswith("_scaled_dot_product_"):
            self.found = name.removeprefix("_scaled_dot_product_")
        return operation(*arguments, **(options or {}))


def _random(hardware: Hardware, *shape: int) -> Tensor:
    return torch.randn(shape, dtype=hardware.products_dtype, device=hardware.device)


def _no_mask(hardware: Hardware, sentences: int) -> Tensor:
    return torch.zeros(sentences, 1, 1, _KEYS, dtype=hardware.products_dtype, device=hardware.device)


def _seconds_by_form(compute: Callable[[Attention], object], hardware: Hardware) -> dict[str, float]:
    forms: dict[str, Attention] = {
        "plain": attention,
        "two products": two_product_attention,
        "fused": fused_attention,
    }
    return {name: _seconds(partial(compute, form), hardware.device) for name, form in forms.items()}


def _seconds(compute: Callable[[], object], device: torch.device) -> float:
    """The median time of a computation, repeated until it lasts long enough to be measured."""
    compute()  # the first time, a kernel may be compiled
    times = 1
    while (seconds := _repeated(compute, times, device)) < 0.005:
        times *= 2
    return statistics.median([seconds, *(_repeated(compute, times, device) for _ in range(_TRIALS - 1))]) / times


def _repeated(compute: Callable[[], object], times: int, device: torch.device) -> float:
    synchronize(device)
    begin = time.perf_counter()
    for _ in range(times):
        compute()
    synchronize(device)
    return time.perf_counter() - begin
