"""The weights of another toolkit's model under our names, and ours under the names of another toolkit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from nmt.config import ModelConfig
from nmt.convert.foreign import (
    OUTPUT,
    OUTPUT_BIAS,
    PROJECTIONS,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    Array,
    ForeignModel,
    Naming,
)
from nmt.convert.vocabulary import PieceOrder, piece_order
from nmt.data.vocab_pair import VocabularyPair
from nmt.model.embeddings import ROWS_MULTIPLE
from nmt.model.transformer import Transformer

SILENT = -100.0
"""The bias of a piece that must never be predicted: its probability is 0 in fp32, and gradients stay finite."""
_FUSED = "query_key_value"


def our_parameters(config: ModelConfig) -> dict[str, Tensor]:
    """The parameters of our model for a vocabulary of one piece, without memory for their numbers."""
    with torch.device("meta"):
        return dict(Transformer(config, 1, source_vocab_size=1).named_parameters())


def split(name: str, parameter: Tensor, config: ModelConfig) -> dict[str, Tensor]:
    """A parameter by its name; one of queries, keys and values together as three parameters."""
    if _FUSED not in name:
        return {name: parameter}
    sizes = [config.heads * size for size in (config.key_size, config.key_size, config.value_size)]
    parts = torch.split(parameter, sizes)
    return {name.replace(_FUSED, one): part for one, part in zip(PROJECTIONS, parts, strict=True)}


def our_weights(model: ForeignModel) -> dict[str, Tensor]:
    """The weights of the bundle, fp32, by our names. Biases that the toolkit lacks are zeros."""
    source, target = (piece_order(side, model.start) for side in (model.source, model.target))
    weights: dict[str, Array] = {}
    for name, shapes in our_parameters(model.config).items():
        parts = split(name, shapes, model.config)
        found = [_or_zeros(model.parameter(part), tuple(shape.shape)) for part, shape in parts.items()]
        weights[name] = np.concatenate(found)
        if name == OUTPUT_BIAS:
            bias_V = _or_zeros(model.parameter(name), (len(model.target.pieces),))
            weights[name] = _rows(bias_V[:, None], target)[:, 0]
            weights[name][list(target.silent)] = SILENT
        elif name.startswith("embedding."):
            weights[name] = _rows(weights[name], source if name == SOURCE_EMBEDDING else target)
    return {name: torch.from_numpy(np.array(array, np.float32)) for name, array in weights.items()}


def _or_zeros(parameter: Array | None, shape: tuple[int, ...]) -> Array:
    return np.zeros(shape, np.float32) if parameter is None else parameter


def _rows(matrix_VD: Array, order: PieceOrder) -> Array:
    """The rows of a matrix in our order; zeros for pieces that the toolkit lacks, and up to a multiple of 8."""
    rows_VD = np.zeros((-(-len(order.theirs) // ROWS_MULTIPLE) * ROWS_MULTIPLE, matrix_VD.shape[1]), np.float32)
    ours = [index for index, theirs in enumerate(order.theirs) if theirs is not None]
    rows_VD[ours] = matrix_VD[[theirs for theirs in order.theirs if theirs is not None]]
    return rows_VD


def matrices_of_pieces(weights: Mapping[str, Tensor], vocab: VocabularyPair) -> dict[str, Tensor]:
    """The embeddings and the projection to the target's pieces, each by its name, where ours may be one; and its bias.

    Their rows are the pieces: ours beyond them, which fill up to a multiple of 8, are left out.
    """
    source, target, shared_VD = vocab.source.size, vocab.target.size, weights[TARGET_EMBEDDING]
    matrices = {
        SOURCE_EMBEDDING: weights.get(SOURCE_EMBEDDING, shared_VD)[:source],
        TARGET_EMBEDDING: shared_VD[:target],
        OUTPUT: weights.get(OUTPUT, shared_VD)[:target],
    }
    return matrices | ({OUTPUT_BIAS: weights[OUTPUT_BIAS][:target]} if OUTPUT_BIAS in weights else {})


def their_tensors(weights: Mapping[str, Tensor], config: ModelConfig, naming: Naming) -> dict[str, Array]:
    """Parameters of ours under the names and in the form of another toolkit. Biases that ours lack are zeros.

    Args:
        weights: by our names. Matrices of pieces have the rows that the toolkit gets.
    """
    ours = {name: part for whole, weight in weights.items() for name, part in split(whole, weight, config).items()}
    biases = {name.replace(".weight", ".bias"): torch.zeros(len(weight)) for name, weight in ours.items()}
    named = ((naming.theirs(name), naming.as_theirs(name, part.numpy())) for name, part in (biases | ours).items())
    return {theirs: np.ascontiguousarray(array) for theirs, array in named if theirs is not None}
