"""Checks that the tensors of another toolkit's model are those that its settings promise: no fewer, no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from nmt.convert.foreign import (
    LINEARS,
    NORMS,
    Array,
    ForeignModel,
    ForeignVocabulary,
    Layout,
    Names,
    Part,
    features,
)
from nmt.convert.pickled import shown
from nmt.convert.torch_files import StoredTensor, TorchFile
from nmt.errors import CheckpointError
from nmt.model.positions import fixed_positions

_PARTS: tuple[Part, ...] = ("encoder", "decoder")
_COMPARED_POSITIONS = 256
_POSITION_LIMIT = 1e-3
"""The largest difference in a table of sinusoids: toolkits compute them in fp32 or fp16."""


def read_tensors(file: TorchFile, values: object, ignored: Iterable[str] = ()) -> dict[str, Array]:
    """The tensors of a state dict.

    Args:
        values: the state dict, within what was read from the file.
        ignored: endings of the names of tensors that are not read.

    Raises:
        CheckpointError: it is no state dict, or a tensor is damaged.
    """
    if not isinstance(values, Mapping):
        raise CheckpointError(f"{file.path}: has no tensors by name where the model's should be.")
    tensors = {}
    for name, tensor in values.items():
        if not isinstance(name, str) or not isinstance(tensor, StoredTensor):
            raise CheckpointError(f"{file.path}: {shown(name)} of the model is not a tensor.")
        if name.endswith(tuple(ignored)):
            continue
        if not tensor.is_float:
            raise CheckpointError(
                f"{file.path}: {shown(name)} does not hold floating-point numbers: the model is quantised. "
                "Import the model that it was made from."
            )
        tensors[name] = file.array(tensor)
    return tensors


def check_layer_counts(tensors: Mapping[str, Array], layers: Sequence[object], name: str) -> None:
    """Refuse numbers of layers that the tensors cannot make up, before names are made of them.

    Raises:
        CheckpointError: a number is larger than that of all tensors.
    """
    for count in layers:
        if isinstance(count, int) and count > len(tensors):
            raise CheckpointError(
                f"{name}: its settings ask for {count:,} layers, but it has {len(tensors):,} tensors."
            )


def check_tensors(model: ForeignModel, name: str) -> None:
    """Check that a model has exactly the tensors of its layout, in the shapes of its settings.

    Args:
        name: of the file, for errors.

    Raises:
        CheckpointError: a tensor is missing, unknown, or has another shape. The message names it.
    """
    expected = list(_expected(model))  # a tensor that stands for two matrices has two sizes, which must be the same
    for tensor, shape in expected:
        if tensor not in model.tensors:
            raise CheckpointError(
                f"{name}: lacks {tensor}: is it a Transformer of {model.toolkit}, with these settings?"
            )
        found = model.tensors[tensor].shape
        if not _fits(found, shape):
            raise CheckpointError(f"{name}: {tensor} is {_size(found)}, but its settings need {_size(shape)}.")
    _check_tables(model, name)
    unknown = sorted(model.tensors.keys() - {tensor for tensor, _ in expected} - set(model.ignored))
    if unknown:
        more = f" and {len(unknown) - 1:,} more tensors" if len(unknown) > 1 else ""
        raise CheckpointError(
            f"{name}: has {shown(unknown[0])}{more}, for which nmt has no place: the model is another."
        )


def tied_embeddings(
    tensors: Mapping[str, Array], layout: Layout, source: ForeignVocabulary, target: ForeignVocabulary
) -> Literal["all", "decoder", "none"]:
    """Which embeddings are equal, number by number. Matrices that are missing are equal to none."""
    source_VD, target_VD, output_VD = (
        tensors.get(name) for name in (layout.source_embedding, layout.target_embedding, layout.output)
    )
    if target_VD is None or output_VD is None or not np.array_equal(target_VD, output_VD):
        return "none"
    is_shared = source.pieces == target.pieces and source_VD is not None and np.array_equal(source_VD, target_VD)
    return "all" if is_shared else "decoder"


def _expected(model: ForeignModel) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of each tensor of the layout; -1 for any size."""
    config, layout = model.config, model.layout
    layers: dict[Part, int] = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for part in _PARTS:
        for layer in range(layers[part]):
            for site in LINEARS[part]:
                shape = features(config, site)
                names = layout.linears[part, site].of_layer(layer + layout.first_layer)
                yield names.weight, shape[::-1] if layout.is_transposed else shape
                if names.bias is not None:
                    yield names.bias, (shape[0],)
            for site in NORMS[part]:
                yield from _norm(layout.norms[part, site].of_layer(layer + layout.first_layer), config.d_model)
        if config.norm == "pre":
            yield from _norm(layout.norms[part, "norm"], config.d_model)
    yield layout.source_embedding, (len(model.source.pieces), config.d_model)
    yield layout.target_embedding, (len(model.target.pieces), config.d_model)
    yield layout.output, (len(model.target.pieces), config.d_model)
    if layout.output_bias is not None:
        yield layout.output_bias, (len(model.target.pieces),)
    for name in layout.positions.values():
        yield name, (-1, config.d_model)


def _norm(names: Names, size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name in (names.weight, names.bias):
        if name is not None:
            yield name, (size,)


def _fits(found: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return len(found) == len(shape) and all(a == b or b == -1 for a, b in zip(found, shape, strict=True))


def _check_tables(model: ForeignModel, name: str) -> None:
    """Check tables of sinusoids, where a file has them: they prove how the toolkit numbers and orders positions."""
    ours = fixed_positions(model.config)
    if ours is None:
        return
    for table in model.layout.position_tables:
        if table not in model.tensors:
            continue
        theirs_TD = model.tensors[table].reshape(-1, model.tensors[table].shape[-1])[:_COMPARED_POSITIONS]
        ours_TD = ours[: len(theirs_TD)].numpy()
        if theirs_TD.shape != ours_TD.shape or not np.abs(theirs_TD - ours_TD).max(initial=0) < _POSITION_LIMIT:
            raise CheckpointError(
                f"{name}: {table} holds other positions than {model.config.positions} from "
                f"{model.config.first_position}, which nmt does not have."
            )


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join("any" if size == -1 else str(size) for size in shape) or "a single number"
