"""Kernels and memory of updates and searches with models of full size, counted on a fake GPU.

``python -m tests.fake_gpu budget`` prints tables; docs/performance.md says what follows from them.

Shapes: B sentences, S source and T target positions.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.config import Config, ModelConfig, parse_config
from nmt.config.reading import load_preset
from nmt.data.batching import Batch
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.kernels.prepacking import prepack
from nmt.machine.device import Hardware, choose_hardware
from nmt.model.transformer import Transformer
from nmt.search.beam_search import beam_search
from nmt.search.search_memory import SearchMemory
from nmt.search.settings import SearchSettings
from nmt.special_ids import EOS
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import NO_OTHERS
from nmt.training.start.cost import flops_of_pairs
from nmt.training.start.model_memory import minimum_memory
from tests.fake_gpu.gpu import FakeGpu
from tests.fake_gpu.ranks import RanksAlone

PRESETS = ("base", "big")
UPDATES = ((25_000, 1), (25_000, 2), (25_000, 4), (25_000, 8), (100_000, 8))
"""Target tokens of an update, and GPUs."""
SEARCHES = ((1, 4), (16, 4), (64, 1), (64, 4), (1_024, 4))
"""Sentences, and beam size."""

# NVIDIA's data sheet of the H100 SXM: bf16 products without sparsity, and memory.
_OPERATIONS_PER_SECOND, _BYTES_PER_SECOND = 989e12, 3.35e12
_SHARE_OF_RATE = 0.5
_SECONDS_PER_LAUNCH = 5e-6

_VOCABULARY = 37_000
# Log-normal lengths of sentences, in pieces with eos.
_MEAN_LENGTH, _SPREAD, _LONGEST = 29, 0.6, 256
_SOURCE_PIECES = 32
_STEPS, _COUNTED = 40, 7


@dataclass(frozen=True)
class UpdateBudget:
    """An update on the GPU of one rank."""

    launches: Counter[str]
    """Kernels by operation."""
    operations: float
    """Floating-point operations of matrix products."""
    kept: int
    """Bytes of tensors between updates."""
    estimate: int
    """The bytes that :func:`~nmt.training.start.model_memory.minimum_memory` counts with."""
    peak: int
    """The maximum bytes of tensors."""

    @property
    def host_seconds(self) -> float:
        return self.launches.total() * _SECONDS_PER_LAUNCH

    @property
    def gpu_seconds(self) -> float:
        return self.operations / (_OPERATIONS_PER_SECOND * _SHARE_OF_RATE)


@dataclass(frozen=True)
class StepBudget:
    """A step of a search: the mean of the last seven of 40 steps."""

    kernels: float
    """Kernels of a step. The host launches each of them, or all at once where they are recorded."""
    gpu_seconds: float
    """The time to read weights, keys and values, or that of the products of weights if it is longer."""
    peak: int
    """The maximum bytes of tensors in all 40 steps, without the model."""
    estimate: int
    """The bytes that :class:`~nmt.search.search_memory.SearchMemory` counts with."""

    @property
    def host_seconds(self) -> float:
        """The time to launch the kernels of a step one by one."""
        return self.kernels * _SECONDS_PER_LAUNCH


def update_budget(preset: str, tokens: int, ranks: int) -> UpdateBudget:
    """Count the second update of a run in bf16."""
    config, lengths_B = _config(preset), _lengths(tokens // ranks)
    exchange = RanksAlone(ranks) if ranks > 1 else NO_OTHERS
    with FakeGpu(computes=False).installed() as gpu:
        hardware = choose_hardware("cuda", "bf16", 1)
        learner = Learner(_model(config, hardware), config, hardware, exchange)
        for update in (1, 2):
            gpu.forget()
            learner.update([_batch(lengths_B)], update=update, target_tokens=tokens, learning_rate=1e-4)
        return UpdateBudget(
            Counter(gpu.launched),
            flops_of_pairs(config, lengths_B, lengths_B),
            kept=gpu.used,
            estimate=minimum_memory(config, hardware, exchange),
            peak=gpu.peak,
        )


class _EnoughError(Exception):
    """Ends a search."""


def step_budget(preset: str, sentences: int, beam: int, *, is_recorded: bool) -> StepBudget:
    """Count steps of a search in bf16 for sentences of 32 pieces.

    Args:
        is_recorded: whether a step is recorded and launched whole.
    """
    config, settings = _config(preset), SearchSettings(beam=beam)
    with FakeGpu(computes=False).installed() as gpu:
        hardware = choose_hardware("cuda", "bf16", 1)
        model = _model(config, hardware).eval()
        prepack(model, hardware.products_dtype)
        if not is_recorded:
            model.recorder = None
        source_BS = torch.full((sentences, _SOURCE_PIECES), EOS, device=hardware.device)
        # The device holds no numbers, so nothing can be counted there.
        packed = model.packed
        model.packed = lambda tokens_BT, lengths_B: packed(tokens_BT, [_SOURCE_PIECES] * sentences)  # type: ignore[method-assign]
        launched_before, model_bytes = 0, gpu.used
        gpu.forget()

        def before_step(sentences: int, length: int) -> None:
            nonlocal launched_before
            if length == _STEPS - _COUNTED:
                launched_before = gpu.launched.total()
            if length == _STEPS:
                raise _EnoughError

        try:
            with hardware.autocast():
                beam_search([model], source_BS, settings, before_step=before_step)
        except _EnoughError:
            pass
        memory = SearchMemory([model], hardware.device, hardware.products_dtype)
        return StepBudget(
            (gpu.launched.total() - launched_before) / _COUNTED,
            _step_seconds(config.model, sentences, beam),
            peak=gpu.peak - model_bytes,
            estimate=memory.need(settings, sentences, _SOURCE_PIECES, _STEPS),
        )


def _step_seconds(config: ModelConfig, sentences: int, beam: int) -> float:
    layer = 6 * config.d_model**2 + 2 * config.d_model * config.d_ff  # without keys and values of the encoder
    weights = config.decoder_layers * layer + config.d_model * _VOCABULARY
    keys_and_values = 2 * config.decoder_layers * config.d_model * sentences * (_SOURCE_PIECES + beam * _STEPS)
    reading = 2 * (weights + keys_and_values) / _BYTES_PER_SECOND
    return max(reading, 2 * weights * sentences * beam / (_OPERATIONS_PER_SECOND * _SHARE_OF_RATE))


def _config(preset: str) -> Config:
    return parse_config(load_preset(preset) | {"data": {"vocab_size": _VOCABULARY}}, name=preset)


def _model(config: Config, hardware: Hardware) -> Transformer:
    kernels = choose_kernels(hardware.device, hardware.products_dtype)
    with hardware.device:
        return accelerate(Transformer(config.model, _VOCABULARY), kernels)


def _lengths(tokens: int) -> NDArray[np.int64]:
    """Lengths that add up to a number of tokens."""
    median = math.log(_MEAN_LENGTH) - _SPREAD**2 / 2
    drawn = np.exp(np.random.default_rng(1).normal(median, _SPREAD, tokens)).astype(np.int64)
    lengths = np.clip(drawn, 2, _LONGEST)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), tokens)]
    return np.append(lengths, tokens - lengths.sum())


def _batch(lengths_B: NDArray[np.int64]) -> Batch:
    pieces_N = np.full(lengths_B.sum(), EOS)
    return Batch(pieces_N, pieces_N, pieces_N, lengths_B, lengths_B)


def print_tables() -> None:
    """Print the tables."""
    print("| preset | tokens per update | GPUs | kernels | launching them | products | memory kept | peak |")
    print("|---|---|---|---|---|---|---|---|")
    for preset in PRESETS:
        for tokens, ranks in UPDATES:
            update = update_budget(preset, tokens, ranks)
            times = f"{update.host_seconds * 1e3:.1f} ms | {update.gpu_seconds * 1e3:.1f} ms"
            memory = f"{update.kept / 1e9:.1f} GB | {update.peak / 1e9:.1f} GB"
            print(f"| `{preset}` | {tokens:,} | {ranks} | {update.launches.total():,} | {times} | {memory} |")
    print()
    print("| preset | sentences | beam | kernels | launching them | kernels, recorded | GPU | memory | recorded |")
    print("|---|---|---|---|---|---|---|---|---|")
    for preset in PRESETS:
        for sentences, beam in SEARCHES:
            step, recorded = (
                step_budget(preset, sentences, beam, is_recorded=is_recorded) for is_recorded in (False, True)
            )
            kernels = f"{step.kernels:.0f} | {step.host_seconds * 1e3:.2f} ms | {recorded.kernels:.0f}"
            memory = f"{step.peak / 1e9:.2f} GB | {recorded.peak / 1e9:.2f} GB"
            print(f"| `{preset}` | {sentences:,} | {beam} | {kernels} | {step.gpu_seconds * 1e3:.2f} ms | {memory} |")
