"""Estimates the minimum memory of a model before any is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from nmt.checkpoint.fitting import layers_with, shapes_with_one_layer
from nmt.config import Config, ModelConfig
from nmt.errors import TrainingError
from nmt.machine.device import Hardware, free_memory, is_out_of_memory
from nmt.model.linear import Linear
from nmt.model.transformer import Transformer
from nmt.training.ranks.exchange import Ranks
from nmt.training.start.resume import choose_what_learns

_MOMENTS = 2
# The error about a model of more layers may say what all its weights would need if they learned.
_MOST_LAYERS_BUILT = 1_000


def check_memory(config: Config, hardware: Hardware, ranks: Ranks) -> None:
    """Refuse a model whose weights and training state exceed the memory, even without batches.

    Raises:
        TrainingError: the model is too large. The message names the sizes and the settings to lower.
    """
    usable = free_memory(hardware.device)
    if usable is None:
        return
    if hardware.device.type == "cpu":
        usable //= ranks.local_size
    needed = minimum_memory(config, hardware, ranks)
    if needed > usable:
        count = parameter_count(config.model, config.data.target_pieces, config.data.vocab_size)
        from rich.filesize import decimal

        parts = "weights, gradients, Adam's moments" + (", a copy to save" if hardware.device.type == "cpu" else "")
        raise TrainingError(
            f"a model of {count:,} parameters needs at least {decimal(needed)} ({parts}); {decimal(usable)} is "
            f"available on {hardware.device}{_per_rank(hardware, ranks)}. {_REMEDY}"
        )


def minimum_memory(config: Config, hardware: Hardware, ranks: Ranks) -> int:
    """The bytes of weights, gradients, moments and their copies, for each rank.

    Raises:
        TrainingError: the number of parameters exceeds 64 bits.
    """
    count = parameter_count(config.model, config.data.target_pieces, config.data.vocab_size)
    weights = count - _fixed_positions(config.model)
    learning, adapters, adapted = _what_learns(config, weights)
    per_learning = _MOMENTS + (config.training.ema_decay is not None)
    numbers = count + adapters + learning * (1 + per_learning)
    if hardware.device.type == "cpu":
        # The main rank copies what it writes as a checkpoint while training continues. The ranks share the memory.
        # Of a matrix with an adapter, these are the matrix itself and the sum of both, which is computed before.
        numbers += (weights + adapters + 2 * adapted + learning * per_learning) // ranks.local_size
    return numbers * hardware.weights_dtype.itemsize


def _what_learns(config: Config, weights: int) -> tuple[int, int, int]:
    """The numbers that learn, those of adapters, and those of the layers that have one.

    Args:
        weights: the number of all weights, without adapters.
    """
    training, layers = config.training, config.model.encoder_layers + config.model.decoder_layers
    if (training.adapter_rank is None and not training.freeze) or layers > _MOST_LAYERS_BUILT:
        return weights, 0, 0
    with torch.device("meta"):
        model = Transformer(config.model, config.data.target_pieces, source_vocab_size=config.data.vocab_size)
    choose_what_learns(model, training)
    learning = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    linear = [each for each in model.modules() if isinstance(each, Linear) and each.adapter is not None]
    adapters = sum(_size(each.adapter) for each in linear)
    return learning, adapters, sum(map(_size, linear)) - adapters


def _size(module: nn.Module | None) -> int:
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())


@contextmanager
def out_of_memory_explained(hardware: Hardware) -> Iterator[None]:
    """Turn an out-of-memory error of the body, which builds a model, into an error with advice.

    Raises:
        TrainingError: the model does not fit into memory.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(f"the model does not fit into the memory of {hardware.device}. {_REMEDY}") from None


_REMEDY = (
    "Lower model.d_model, model.d_ff, model.max_positions or the numbers of layers (--set), or take a smaller --preset."
)


def parameter_count(config: ModelConfig, vocab_size: int, source_vocab_size: int | None = None) -> int:
    """The number of parameters of a model, including tables of positions, without building all layers.

    Raises:
        TrainingError: the number exceeds 64 bits.
    """
    try:
        shapes = shapes_with_one_layer(config, vocab_size, source_vocab_size or vocab_size)
    except (RuntimeError, TypeError, OverflowError):
        raise TrainingError(f"a model of these sizes fits into no memory. {_REMEDY}") from None
    return _fixed_positions(config) + sum(
        (layers_with(name, config) or 1) * math.prod(shape) for name, shape in shapes.items()
    )


def _fixed_positions(config: ModelConfig) -> int:
    """The numbers of the table of sinusoidal positions."""
    return 0 if config.positions == "learned" else config.max_positions * config.d_model


def _per_rank(hardware: Hardware, ranks: Ranks) -> str:
    return " for each rank" if hardware.device.type == "cpu" and ranks.local_size > 1 else ""
