"""The file of a model of CTranslate2, ``model.bin``: variables by name, some of which hold several tensors."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nmt.convert.files import COPY_AGAIN, shown
from nmt.convert.foreign import PROJECTIONS, Array, StoredTensor
from nmt.errors import CheckpointError

_VERSIONS = (4, 5, 6)
"""The versions of the file that are read: those since CTranslate2 1.4 (January 2020)."""
_SPECIFICATION = "TransformerSpec"
_DTYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")
"""The numbers of each type in the file. The last one is bfloat16, which NumPy lacks."""
_BFLOAT16 = 5
_FUSED: dict[str, dict[str, tuple[str, ...]]] = {
    "/self_attention": {"0": PROJECTIONS, "1": ("output",)},
    "/attention": {"0": PROJECTIONS[:1], "1": PROJECTIONS[1:], "2": ("output",)},
}
"""Attention -> number of a linear layer -> the projections in it."""


def read_variables(path: Path) -> dict[str, Any]:
    """The variables of a model, as they are stored; bfloat16 as float32.

    Raises:
        CheckpointError: the file cannot be read, is damaged, or is another kind of model.
    """
    try:
        with path.open("rb") as stream:
            return _read(stream, path.stat().st_size)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, struct.error) as error:
        raise CheckpointError(f"{path}: is not a model of CTranslate2, or is damaged ({error}). {COPY_AGAIN}") from None


def _read(stream: BinaryIO, size: int) -> dict[str, Any]:
    def number(kind: str) -> int:
        (value,) = struct.unpack(kind, stream.read(struct.calcsize(kind)))
        return int(value)

    def text() -> str:
        return stream.read(number("<H")).rstrip(b"\0").decode()

    if (version := number("<I")) not in _VERSIONS:
        raise ValueError(f"it has version {version}; {_VERSIONS[0]} to {_VERSIONS[-1]} can be read")
    if (specification := text()) != _SPECIFICATION:
        raise ValueError(f"it is a {shown(specification)}, not a {_SPECIFICATION}")
    number("<I")  # the revision of the specification
    variables: dict[str, Any] = {}
    for _ in range(number("<I")):
        name = text()
        shape = [number("<I") for _ in range(number("<B"))]
        kind, count = number("<B"), number("<I")
        if kind >= len(_DTYPES) or math.prod(shape) * np.dtype(_DTYPES[kind]).itemsize != count or count > size:
            raise ValueError(f"{shown(name)} has impossible sizes")
        values = np.frombuffer(stream.read(count), _DTYPES[kind]).reshape(shape)
        # A number of 16 bits is the upper half of the same one in 32.
        variables[name] = (values.astype("<u4") << 16).view("<f4") if kind == _BFLOAT16 else values
    for _ in range(number("<I")):
        alias, name = text(), text()
        if name not in variables:
            raise ValueError(f"{shown(alias)} stands for {shown(name)}, which is not there")
        # The scale of a variable is shared with it.
        variables |= {alias + end: variables[name + end] for end in ("", "_scale") if name + end in variables}
    return variables


def stored_tensors(values: Mapping[str, Any], path: Path) -> Iterator[StoredTensor]:
    """The weights, with queries, keys and values apart.

    Args:
        values: the variables of a model, as from :func:`read_variables`.
        path: its file.

    Raises:
        CheckpointError: integers lack the scale that they are stored with, or have the scale of another matrix.
    """
    for variable, array in values.items():
        if array.ndim == 0 or variable.removesuffix("_scale") in values.keys() - {variable}:
            continue
        numbers: Array = array.astype(np.float32)
        steps = np.zeros_like(numbers)
        scale = values.get(f"{variable}_scale")
        if scale is not None:
            if array.ndim != 2 or scale.size not in (1, len(array)):
                raise CheckpointError(
                    f"{path}: {shown(variable)} has {scale.size:,} scales for {len(array):,} rows. {COPY_AGAIN}"
                )
            scale_R1 = scale.astype(np.float32).reshape(-1, 1)
            numbers = numbers / scale_R1
            # A row of zeros has a scale that means nothing.
            is_rounded_R1 = (scale.size == 1) | array.any(axis=1, keepdims=True)
            steps = np.broadcast_to(is_rounded_R1 / scale_R1, array.shape)
        elif array.dtype.kind != "f":
            raise CheckpointError(f"{path}: {shown(variable)} holds numbers of type {array.dtype} without a scale.")
        parts = _parts(variable)
        if len(array) % len(parts):
            parts = [variable]
        for part, rows, steps_of_rows in zip(
            parts, np.split(numbers, len(parts)), np.split(steps, len(parts)), strict=True
        ):
            yield StoredTensor(part, rows, steps_of_rows)


def _parts(variable: str) -> list[str]:
    """The names of the tensors that a variable is, of which one may hold queries, keys and values."""
    module, _, linear = variable.rpartition("/linear_")
    number, _, end = linear.partition("/")
    fused = next((fused for attention, fused in _FUSED.items() if module.endswith(attention)), {})
    return [f"{module}/{part}/{end}" for part in fused.get(number, ())] or [variable]


def variable_of(tensor: str) -> str:
    """The variable that holds a tensor, perhaps among others. :func:`stored_tensors` takes it apart."""
    *module, projection, end = tensor.split("/")
    fused = _FUSED.get(f"/{module[-1]}", {}) if module else {}
    number = next((number for number, parts in fused.items() if projection in parts), None)
    return tensor if number is None else "/".join([*module, f"linear_{number}", end])
