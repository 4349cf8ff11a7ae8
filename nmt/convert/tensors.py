"""The tensors of another toolkit's model as its file holds them: which are equal, and what tables of positions tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from nmt.convert.foreign import Array, ForeignModel, ForeignVocabulary, Layout
from nmt.convert.messages import shown
from nmt.convert.torch_files import TorchFile
from nmt.errors import CheckpointError
from nmt.model.positions import fixed_positions

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
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{file.path}: {shown(name)} of the model is not a tensor.")
        if name.endswith(tuple(ignored)):
            continue
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"{file.path}: {shown(name)} does not hold floating-point numbers: the model is quantised. "
                "Import the model that it was made from."
            )
        tensors[name] = _array(tensor, f"{file.path}: {shown(name)}")
    return tensors


def _array(tensor: torch.Tensor, name: str) -> Array:
    """The numbers of a tensor, as float32."""
    # A view may show each number of its storage many times.
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{name} is damaged: a tensor is larger than its storage.")
    try:
        return tensor.detach().float().contiguous().numpy()
    except (RuntimeError, ValueError, TypeError) as error:
        raise CheckpointError(f"{name} is damaged: it cannot be read ({shown(str(error))}).") from None


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


def check_position_tables(model: ForeignModel, name: str) -> None:
    """Check tables of sinusoids, where a file has them: they prove how the toolkit numbers and orders positions.

    Args:
        name: of the file, for errors.

    Raises:
        CheckpointError: a table holds other positions than the settings promise.
    """
    ours = fixed_positions(model.config)
    if ours is None:
        return
    for table in model.layout.position_tables:
        if table not in model.tensors:
            continue
        stored = model.tensors[table]
        has_width = stored.ndim > 0 and stored.shape[-1] == ours.shape[-1]
        theirs_TD = stored.reshape(-1, ours.shape[-1])[:_COMPARED_POSITIONS] if has_width else None
        ours_TD = ours[:_COMPARED_POSITIONS].numpy()
        if theirs_TD is None or not _are_near(theirs_TD, ours_TD[: len(theirs_TD)]):
            raise CheckpointError(
                f"{name}: {table} holds other positions than {model.config.positions} from "
                f"{model.config.first_position}, which nmt does not have."
            )


def _are_near(theirs_TD: Array, ours_TD: NDArray[np.float64]) -> bool:
    return theirs_TD.shape == ours_TD.shape and bool(np.abs(theirs_TD - ours_TD).max(initial=0) < _POSITION_LIMIT)
