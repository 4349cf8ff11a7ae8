"""The weights of another toolkit's model under our names, with the rows of its matrices in our order of the pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from nmt.config import ModelConfig
from nmt.convert.foreign import ATTENTION, LINEARS, NORMS, Array, ForeignModel, Layout, Names, Part
from nmt.convert.vocabulary import PieceOrder, piece_order
from nmt.model.embeddings import ROWS_MULTIPLE

SILENT = -100.0
"""The bias of a piece that must never be predicted: its probability is 0 in fp32, and gradients stay finite."""


def our_weights(model: ForeignModel) -> dict[str, Tensor]:
    """The weights of the bundle, fp32, by our names. Every number is the toolkit's own, in another place."""
    return {name: torch.from_numpy(np.array(array, np.float32)) for name, array in _arrays(model)}


def _arrays(model: ForeignModel) -> Iterator[tuple[str, Array]]:
    yield from _embeddings(model)
    sizes: dict[Part, int] = {"encoder": model.config.encoder_layers, "decoder": model.config.decoder_layers}
    for part, layers in sizes.items():
        for layer in range(layers):
            yield from _layer(model, part, layer)
        if model.config.norm == "pre":
            yield from _norm(model, part, "norm", 0, f"{part}_norm")
    first = model.layout.first_position_row
    for part, name in model.layout.positions.items():
        side = "source" if part == "encoder" else "target"
        yield f"{side}_positions.weight", model.tensors[name][first : first + model.config.max_positions]


def layer_tensors(weights: Mapping[str, Tensor], config: ModelConfig, layout: Layout) -> Iterator[tuple[str, Array]]:
    """The tensors of all layers and final norms of our model, under the names and in the layout of another toolkit.

    Biases that our model lacks are zeros.
    """
    sizes: dict[Part, int] = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for part, layers in sizes.items():
        for layer in range(layers):
            for site in LINEARS[part]:
                names = layout.linears[part, site].of_layer(layer + layout.first_layer)
                weight_OI, bias_O = _our_linear(weights, config, f"{part}.{layer}", site)
                yield names.weight, _contiguous(weight_OI.T if layout.is_transposed else weight_OI)
                if names.bias is not None:
                    yield names.bias, bias_O
            for site in NORMS[part]:
                yield from _their_norm(
                    weights, layout.norms[part, site], layer + layout.first_layer, f"{part}.{layer}.{site}"
                )
        if config.norm == "pre":
            yield from _their_norm(weights, layout.norms[part, "norm"], 0, f"{part}_norm")


def _our_linear(weights: Mapping[str, Tensor], config: ModelConfig, prefix: str, site: str) -> tuple[Array, Array]:
    module, name = site.split(".")
    rows = slice(None)
    if module != "feed_forward" and name != "output":
        place = ATTENTION.index(name)
        starts = [
            0,
            *np.cumsum([config.heads * size for size in (config.key_size, config.key_size, config.value_size)]),
        ]
        rows, name = slice(starts[place], starts[place + 1]), "query_key_value"
    weight = weights[f"{prefix}.{module}.{name}.weight"].numpy()[rows]
    bias = weights.get(f"{prefix}.{module}.{name}.bias")
    return weight, np.zeros(len(weight), np.float32) if bias is None else _contiguous(bias.numpy()[rows])


def _their_norm(weights: Mapping[str, Tensor], names: Names, layer: int, ours: str) -> Iterator[tuple[str, Array]]:
    names = names.of_layer(layer)
    assert names.bias is not None
    yield names.weight, weights[f"{ours}.weight"].numpy()
    yield names.bias, weights[f"{ours}.bias"].numpy()


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array)


def _embeddings(model: ForeignModel) -> Iterator[tuple[str, Array]]:
    source, target = (piece_order(side, model.start) for side in (model.source, model.target))
    layout, tensors = model.layout, model.tensors
    yield "embedding.weight", _rows(tensors[layout.target_embedding], target)
    if model.config.tied_embeddings != "all":
        yield "embedding.source_weight", _rows(tensors[layout.source_embedding], source)
    if model.config.tied_embeddings == "none":
        yield "embedding.output_weight", _rows(tensors[layout.output], target)
    if model.config.output_bias:
        theirs = None if layout.output_bias is None else tensors[layout.output_bias].reshape(-1, 1)
        bias = _rows(np.zeros((len(model.target.pieces), 1), np.float32) if theirs is None else theirs, target)[:, 0]
        bias[list(target.silent)] = SILENT
        yield "embedding.output_bias", bias


def _rows(matrix_VD: Array, order: PieceOrder) -> Array:
    """The rows of a matrix in our order; zeros for pieces that the toolkit lacks, and up to a multiple of 8."""
    rows_VD = np.zeros((-(-len(order.theirs) // ROWS_MULTIPLE) * ROWS_MULTIPLE, matrix_VD.shape[1]), np.float32)
    ours = [index for index, theirs in enumerate(order.theirs) if theirs is not None]
    rows_VD[ours] = matrix_VD[[theirs for theirs in order.theirs if theirs is not None]]
    return rows_VD


def _layer(model: ForeignModel, part: Part, layer: int) -> Iterator[tuple[str, Array]]:
    prefix = f"{part}.{layer}"
    for attention in ("self_attention", "cross_attention"):
        if f"{attention}.query" in LINEARS[part]:
            *projections, output = (model.linear(part, layer, f"{attention}.{name}") for name in ATTENTION)
            fused = np.concatenate([weight for weight, _ in projections])
            yield f"{prefix}.{attention}.query_key_value.weight", fused
            yield f"{prefix}.{attention}.output.weight", output[0]
            if model.config.attention_bias:
                biases = [_bias(bias, len(weight)) for weight, bias in projections]
                yield f"{prefix}.{attention}.query_key_value.bias", np.concatenate(biases)
                yield f"{prefix}.{attention}.output.bias", _bias(output[1], len(output[0]))
    for site in ("feed_forward.inner", "feed_forward.output"):
        weight, bias = model.linear(part, layer, site)
        yield f"{prefix}.{site}.weight", weight
        yield f"{prefix}.{site}.bias", _bias(bias, len(weight))
    for site in NORMS[part]:
        yield from _norm(model, part, site, layer, f"{prefix}.{site}")


def _bias(bias: Array | None, size: int) -> Array:
    return np.zeros(size, np.float32) if bias is None else bias


def _norm(model: ForeignModel, part: Part, site: str, layer: int, name: str) -> Iterator[tuple[str, Array]]:
    scale, bias = model.norm(part, site, layer)
    yield f"{name}.weight", scale
    yield f"{name}.bias", bias
