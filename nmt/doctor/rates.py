"""How fast this machine computes: matrix products in each type, and copies of memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from nmt.kernels.prepacking import prepacked
from nmt.machine.device import BASE_PRODUCT, EMULATED, Hardware, bf16_speedup, computes, synchronize
from nmt.option_fields import Precision

_TRIALS = 5
ROWS = (4, 256, 3_600)
"""Rows of a product: a beam of one sentence, a batch of hypotheses, a micro-batch of training."""
_COPIED_NUMBERS = 1 << 26


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
                        for rows in ROWS
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
