"""Tensors in files of safetensors, as several toolkits write them: in one file or several."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from nmt.convert.foreign import Array
from nmt.errors import CheckpointError


def read_safetensors(files: Sequence[Path]) -> dict[str, Array]:
    """All tensors of the files as float32, by name.

    Raises:
        CheckpointError: a file is damaged, holds numbers that are not floating-point, or a tensor of another file.
    """
    tensors: dict[str, Array] = {}
    for file in files:
        read = _read(file)
        again = next((name for name in read if name in tensors), None)
        if again is not None:
            raise CheckpointError(
                f"{file}: holds {again[:80]!a}, which another file of the model holds too. Copy the model again."
            )
        tensors |= {name: _as_array(name, tensor, file) for name, tensor in read.items()}
    return tensors


def _read(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}). Copy the model again.") from None


def _as_array(name: str, tensor: Tensor, file: Path) -> Array:
    if not tensor.is_floating_point():
        raise CheckpointError(
            f"{file}: {name[:80]!a} is not a tensor of floating-point numbers. nmt imports models in float32, "
            "float16 or bfloat16."
        )
    array: Array = tensor.to(torch.float32).numpy()
    return array
