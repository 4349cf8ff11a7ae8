"""The time and memory of a layer over growing sizes, and the exponents that fit them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from layer_types import LayerType
from torch import Tensor

_TRIALS = 5


@dataclass(frozen=True)
class Measurement:
    """What a forward and a backward pass took."""

    size: int
    """n or d."""
    seconds: float
    megabytes: float
    """Of the tensors that the backward pass needs."""


def over_lengths(layer: LayerType, lengths: Sequence[int], d: int) -> list[Measurement]:
    """Measure with growing n."""
    return [_measure(layer, n, d, size=n) for n in lengths]


def over_widths(layer: LayerType, n: int, widths: Sequence[int]) -> list[Measurement]:
    """Measure with growing d."""
    return [_measure(layer, n, d, size=d) for d in widths]


def exponent(measurements: Sequence[Measurement], of: Callable[[Measurement], float]) -> float:
    """The slope of the line through the larger half of the sizes, with logarithms on both axes.

    At small sizes, what each operation takes to begin hides how its work grows.
    """
    larger = measurements[len(measurements) // 2 :]
    x, y = (
        [math.log(value) for value in values] for values in zip(*((one.size, of(one)) for one in larger), strict=True)
    )
    return statistics.linear_regression(x, y).slope


def _measure(layer: LayerType, n: int, d: int, *, size: int) -> Measurement:
    torch.manual_seed(0)
    x = torch.randn(1, n, d, requires_grad=True)
    run = layer.make(n, d)
    kept = _kept_for_backward(run, x)
    seconds = min(_time(run, x) for _ in range(_TRIALS))
    return Measurement(size, seconds, kept / 1e6)


def _time(run: Callable[[Tensor], Tensor], x: Tensor) -> float:
    x.grad = None
    begin = time.perf_counter()
    run(x).sum().backward()
    return time.perf_counter() - begin


def _kept_for_backward(run: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Bytes of all tensors that the backward pass needs, each memory counted once."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = run(x)
    del result
    return sum(kept.values())
