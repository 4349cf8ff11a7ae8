"""Check that a bundle's settings and vocabulary fit its weights, by reading only the header of the weights.

Settings from elsewhere may ask for a model of any size. They are compared with the names and shapes in the header of
``model.safetensors`` before a layer is built or a weight is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.skip_initialisation import SkipInitialisation
from nmt.config import ModelConfig
from nmt.errors import CheckpointError
from nmt.io.regular import open_regular
from nmt.machine.device import memory_for_use
from nmt.model.transformer import Transformer
from nmt.text.printable import listed

Shapes = Mapping[str, tuple[int, ...]]
"""Tensor name -> shape."""

_LAYER = re.compile(r"(encoder|decoder)\.(\d+)\.(.*)")
# The table of sinusoidal positions is computed in float64, with temporaries of twice its size.
_BYTES_OF_POSITION = 24


def check_fit(weights: Path, config: ModelConfig, vocab_size: int, source_vocab_size: int) -> None:
    """Check that a file holds the weights of the model that the settings and the vocabulary sizes describe.

    Raises:
        CheckpointError: the file holds other weights or cannot be read, or the model is too large for the memory.
    """
    found = weight_shapes(weights)
    for part in ("encoder", "decoder"):
        layers = {match[2] for name in found if (match := _LAYER.fullmatch(name)) and match[1] == part}
        wanted = getattr(config, f"{part}_layers")
        if len(layers) != wanted:
            raise _misfit(weights, f"model.{part}_layers is {wanted}, but the weights have {len(layers)} {part} layers")
    _check_positions(weights, config)
    try:
        expected = _expected(config, vocab_size, source_vocab_size)
    except (RuntimeError, TypeError, OverflowError):
        raise _misfit(weights, "a model of these sizes fits into no memory") from None
    if missing := sorted(expected.keys() - found.keys()):
        raise _misfit(weights, f"the weights lack {_listed(missing)}")
    if unknown := sorted(found.keys() - expected.keys()):
        raise _misfit(weights, f"the weights hold {_listed(unknown)}, which the model does not have")
    for name, shape in found.items():
        if shape != expected[name]:
            raise _misfit(weights, f"{name} is {in_words(shape)}, expected {in_words(expected[name])}")


def weight_shapes(path: Path) -> Shapes:
    """The shapes of the weights in a file, by reading only its header.

    Raises:
        CheckpointError: the file cannot be read, or holds other numbers.
    """
    try:
        open_regular(path).close()  # safetensors would wait for a pipe
        with safe_open(path, "pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            other = sorted(name for name, one in slices.items() if one.get_dtype() not in ("F64", "F32", "F16", "BF16"))
            if other:
                raise CheckpointError(f"{path}: is damaged: {_listed(other)} are not floating-point numbers.")
            return {name: tuple(one.get_shape()) for name, one in slices.items()}
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}).") from None


def _check_positions(weights: Path, config: ModelConfig) -> None:
    """Check that the table of positions fits into memory where it is computed: no file holds it."""
    if config.positions == "learned":
        return
    usable = memory_for_use(torch.device("cpu"))
    if usable is not None and config.max_positions * config.d_model * _BYTES_OF_POSITION > usable:
        raise _misfit(weights, f"model.max_positions is {config.max_positions}, which needs more memory than there is")


def shapes_with_one_layer(config: ModelConfig, vocab_size: int, source_vocab_size: int) -> Shapes:
    """The shapes of the weights of a model with one layer of each kind. It is built on the meta device (no memory).

    Raises:
        RuntimeError, TypeError, OverflowError: a size exceeds 64 bits.
    """
    # With learned positions, because sinusoids on the meta device make torch import modules for seconds.
    one_of_each = config.model_copy(
        update={"encoder_layers": 1, "decoder_layers": 1, "positions": "learned", "first_position": 0}
    )
    with torch.device("meta"), SkipInitialisation():
        model = Transformer(one_of_each, vocab_size, source_vocab_size=source_vocab_size)
    return {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if config.positions == "learned" or not name.startswith(("source_positions.", "target_positions."))
    }


def layers_with(name: str, config: ModelConfig) -> int | None:
    """The number of layers that have a weight of layer 0; None if it belongs to no layer."""
    match = _LAYER.fullmatch(name)
    return None if match is None else {"encoder": config.encoder_layers, "decoder": config.decoder_layers}[match[1]]


def _expected(config: ModelConfig, vocab_size: int, source_vocab_size: int) -> Shapes:
    """The shapes of all weights."""
    expected: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes_with_one_layer(config, vocab_size, source_vocab_size).items():
        layers = layers_with(name, config)
        names = [name] if layers is None else [name.replace(".0.", f".{number}.", 1) for number in range(layers)]
        expected |= dict.fromkeys(names, shape)
    return expected


def _misfit(weights: Path, problem: str) -> CheckpointError:
    config = BundleFolder(weights.parent).config.name
    return CheckpointError(
        f"{weights.parent}: the weights do not fit {config} and the vocabulary: {problem}. The files belong to "
        "different models: use another bundle, or copy this one again."
    )


def _listed(names: list[str]) -> str:
    return listed([name[:80] for name in names])


def in_words(shape: tuple[int, ...]) -> str:
    """A tensor's shape within a message."""
    return " x ".join(map(str, shape)) or "a single number"
