"""Checks that a foreign model is whole: every tensor that it needs has its size, and no tensor is left over."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.convert.foreign import LINEARS, NORMS, ForeignModel, Part, features
from nmt.convert.messages import shown
from nmt.errors import CheckpointError

_SHOWN = 3


def check_tensors(model: ForeignModel, name: str) -> None:
    """Refuse a model that lacks tensors, or has some of other sizes or without a place in ours.

    Args:
        name: of the model's file, for errors.

    Raises:
        CheckpointError: the message names the tensors.
    """
    layers = model.config.encoder_layers + model.config.decoder_layers
    if layers > len(model.tensors):  # found out before each of their tensors is looked for
        raise CheckpointError(
            f"{name}: its settings say {layers:,} layers, but it holds {len(model.tensors):,} tensors."
        )
    expected = list(_expected(model))
    names = dict.fromkeys(tensor for tensor, _ in expected)
    missing = [tensor for tensor in names if tensor not in model.tensors]
    if missing:
        raise CheckpointError(f"{name}: lacks {_listed(missing)}: the file is not whole, or its settings are wrong.")
    left_over = sorted(model.tensors.keys() - names.keys() - set(model.ignored))
    if left_over:
        raise CheckpointError(
            f"{name}: holds {_listed(left_over)}, which have no place in our model. It may be a kind of Transformer "
            "that nmt does not have; please report it with the settings of the model."
        )
    for tensor, size in expected:
        found = model.tensors[tensor].shape
        is_row = len(size) == 1 and found == (1, *size)  # as Marian stores vectors
        if found != size and not is_row:
            raise CheckpointError(
                f"{name}: {tensor} is {_size(found)}, expected {_size(size)}. Its files belong to different models, or "
                "are damaged."
            )


def _expected(model: ForeignModel) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name -> shape of each tensor, as the settings say."""
    config, layout = model.config, model.layout
    yield layout.source_embedding, (len(model.source.pieces), config.d_model)
    yield layout.target_embedding, (len(model.target.pieces), config.d_model)
    yield layout.output, (len(model.target.pieces), config.d_model)
    if layout.output_bias is not None:
        yield layout.output_bias, (len(model.target.pieces),)
    for tensor in layout.positions.values():
        rows = model.tensors[tensor].shape[0] if tensor in model.tensors and model.tensors[tensor].ndim else 0
        yield tensor, (rows or config.max_positions, config.d_model)
    layers: dict[Part, int] = {"encoder": config.encoder_layers, "decoder": config.decoder_layers}
    for part, count in layers.items():
        for layer in range(count):
            yield from _of_layer(model, part, layer)
        if config.norm == "pre":
            names = layout.norms[part, "norm"]
            yield from ((tensor, (config.d_model,)) for tensor in (names.weight, names.bias) if tensor is not None)


def _of_layer(model: ForeignModel, part: Part, layer: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    layout, number = model.layout, layer + model.layout.first_layer
    for site in LINEARS[part]:
        names = layout.linears[part, site].of_layer(number)
        out_features, in_features = features(model.config, site)
        yield names.weight, (in_features, out_features) if layout.is_transposed else (out_features, in_features)
        if names.bias is not None:
            yield names.bias, (out_features,)
    for site in NORMS[part]:
        names = layout.norms[part, site].of_layer(number)
        yield from ((tensor, (model.config.d_model,)) for tensor in (names.weight, names.bias) if tensor is not None)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(shown, names[:_SHOWN])) + more


def _size(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a single number"
