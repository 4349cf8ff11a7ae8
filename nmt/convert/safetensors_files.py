"""Tensors in files of safetensors, as several toolkits write them: in one file or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
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
        tensors |= as_arrays(read, file)
    return tensors


def as_arrays(tensors: Mapping[str, Any], file: Path) -> dict[str, Array]:
    """Tensors as float32.

    Args:
        tensors: what a file holds, by name.
        file: for errors.

    Raises:
        CheckpointError: a value is no tensor of floating-point numbers.
    """
    return {name: _as_array(name, tensor, file) for name, tensor in tensors.items()}


def _read(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}). Copy the model again.") from None


def _as_array(name: str, tensor: Any, file: Path) -> Array:
    if (
        not isinstance(tensor, Tensor)
        or tensor.layout != torch.strided
        or tensor.device.type != "cpu"
        or not tensor.is_floating_point()
    ):
        raise CheckpointError(
            f"{file}: {name[:80]!a} is not a tensor of floating-point numbers. nmt imports models in float32, "
            "float16 or bfloat16."
        )
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{file}: {name[:80]!a} is larger than its numbers. Copy the model again.")
    array: Array = tensor.detach().to(torch.float32).numpy().astype(np.float32, copy=False)
    return array
