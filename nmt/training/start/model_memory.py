"""How much memory a model takes at least, told before any of it is taken."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nmt.config import Config, ModelConfig
from nmt.device import Hardware, is_out_of_memory, memory_for_use
from nmt.errors import TrainingError
from nmt.model.transformer import Transformer
from nmt.training.ranks.exchange import Ranks

# Weights, gradients and Adam's two moments.
_COPIES = 4


def check_memory(config: Config, vocab_size: int, hardware: Hardware, ranks: Ranks) -> None:
    """Refuse a model whose weights and training state alone exceed the memory; batches come on top of them.

    Raises:
        TrainingError: says what is needed, what there is, and which settings to lower.
    """
    usable = memory_for_use(hardware.device)
    if usable is None:
        return
    if hardware.device.type == "cpu":
        usable //= ranks.local_size
    count = parameter_count(config.model, vocab_size)
    copies = _COPIES + (config.training.ema_decay is not None)
    needed = count * copies * hardware.weights_dtype.itemsize
    if needed > usable:
        raise TrainingError(
            f"a model of {count:,} parameters takes at least {_size(needed)} (weights, gradients, Adam's moments); "
            f"{_size(usable)} is available on {hardware.device}{_per_rank(hardware, ranks)}. {_REMEDY}"
        )


@contextmanager
def out_of_memory_explained(hardware: Hardware) -> Iterator[None]:
    """While a model and its training state are made: let memory that does not suffice be an error with advice.

    Raises:
        TrainingError: it did not suffice.
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


def parameter_count(config: ModelConfig, vocab_size: int) -> int:
    """Parameters and tables of positions of a model, found without building its layers one by one.

    Raises:
        TrainingError: they are more than can be counted.
    """
    try:
        one, two, other = (
            _count(config.model_copy(update={"encoder_layers": encoder, "decoder_layers": decoder}), vocab_size)
            for encoder, decoder in ((1, 1), (2, 1), (1, 2))
        )
    except (RuntimeError, TypeError, OverflowError):  # a size that 64 bits do not hold
        raise TrainingError(f"no memory can hold a model of these sizes. {_REMEDY}") from None
    return one + (config.encoder_layers - 1) * (two - one) + (config.decoder_layers - 1) * (other - one)


def _count(config: ModelConfig, vocab_size: int) -> int:
    with torch.device("meta"):
        model = Transformer(config, vocab_size)
    return sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))


def _per_rank(hardware: Hardware, ranks: Ranks) -> str:
    return " for each rank" if hardware.device.type == "cpu" and ranks.local_size > 1 else ""


def _size(count: int) -> str:
    """Bytes for people."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB", "PB", "EB"):
        if value < 1_000:
            break
        value, unit = value / 1_000, larger
    return f"{value:,.3g} {unit}" if value < 1_000 else f"{value:,.0f} {unit}"
