"""What training costs: the floating-point operations of a batch, and how fast this machine multiplies matrices."""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from nmt.config import Config
from nmt.machine.device import Hardware, synchronize
from nmt.model.transformer import Transformer
from nmt.training.loss import label_smoothed_loss

_TRIALS = 5


def training_flops(config: Config, rows: int, source_length: int, target_length: int) -> int:
    """The operations of all matrix products in the forward and backward passes over a padded batch: R-Drop has two.

    torch counts them on the meta device, so no formula must be kept in step with the model.
    """
    with torch.device("meta"):
        model = Transformer(config.model, config.data.target_pieces, source_vocab_size=config.data.vocab_size)
        model.train()
        source_BS = torch.ones(rows, source_length, dtype=torch.long)
        target_BT = torch.ones(rows, target_length, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            source = model.packed(source_BS, [source_length] * rows)
            target = model.packed(target_BT, [target_length] * rows)
            loss = label_smoothed_loss(model(source, target), target.tokens_N, config.training.label_smoothing).smoothed
            loss.backward()  # type: ignore[no-untyped-call]
    return int(counter.get_total_flops()) * (2 if config.training.r_drop else 1)


def flops_of_pairs(config: Config, source_tokens: NDArray[np.int64], target_tokens: NDArray[np.int64]) -> float:
    """As :func:`training_flops`, for pairs of different lengths without padding.

    A pair's operations are a polynomial of its two lengths: products of rows are linear, attention is quadratic.
    ``examples/benchmarks`` calls it.
    """

    def powers(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float64]:
        s, t = source.astype(np.float64), target.astype(np.float64)
        return np.stack([np.ones_like(s), s, t, s * s, s * t, t * t], axis=-1)

    trials = np.array([(8, 8), (16, 8), (24, 8), (8, 16), (16, 16), (8, 24)])
    counts = [training_flops(config, 1, source, target) for source, target in trials.tolist()]
    coefficients = np.linalg.solve(powers(*trials.T), np.array(counts, np.float64))
    return float((powers(source_tokens, target_tokens) @ coefficients).sum())


def matrix_rate(config: Config, hardware: Hardware, rows: int) -> float:
    """Operations per second of the model's largest matrix product (``rows`` positions by d_model by d_ff).

    Training cannot be faster than this.
    """
    d_model, d_ff = config.model.d_model, config.model.d_ff
    dtype = hardware.products_dtype
    # Random numbers: under a power limit, a GPU multiplies equal numbers faster.
    draw = torch.Generator(hardware.device).manual_seed(0)
    x, weight = (
        torch.randn(shape, device=hardware.device, generator=draw).to(dtype)
        for shape in ((rows, d_model), (d_model, d_ff))
    )
    out = torch.empty(rows, d_ff, dtype=dtype, device=hardware.device)
    _multiply(x, weight, out)
    seconds = statistics.median(_multiply(x, weight, out) for _ in range(_TRIALS))
    return 2 * rows * d_model * d_ff / seconds


def _multiply(x: Tensor, weight: Tensor, out: Tensor) -> float:
    synchronize(x.device)
    begin = time.perf_counter()
    torch.mm(x, weight, out=out)
    synchronize(x.device)
    return time.perf_counter() - begin
