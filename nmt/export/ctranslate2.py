"""Export to CTranslate2: one folder with weights, settings and vocabulary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

import nmt
from nmt.checkpoint.bundle import Bundle
from nmt.config import ModelConfig
from nmt.config.documents import parse_json
from nmt.errors import NmtError
from nmt.export.expressible import check_attention
from nmt.files import replacing_folder
from nmt.model.embeddings import fixed_positions
from nmt.ownership import Kind, check_replaceable
from nmt.writing import write_file

Quantization = Literal["float32", "float16", "bfloat16", "int8", "int8_float16"]

_NOTES_NAME = "notes.json"


def _is_ours(folder: Path) -> bool:
    try:
        return "exported" in parse_json((folder / _NOTES_NAME).read_bytes())
    except (OSError, ValueError, TypeError):
        return False


CTRANSLATE2 = Kind(
    "a CTranslate2 model",
    _is_ours,
    is_folder=True,
    holds=("config.json", "model.bin", "*_vocabulary.json", "*_vocabulary.txt", _NOTES_NAME),
)


def to_ctranslate2(bundle: Bundle, folder: Path, *, quantization: Quantization = "float32") -> None:
    """Write a bundle as a CTranslate2 model.

    The model expects source pieces with eos at the end, and starts outputs with bos by itself. It does not record which
    pieces must never be emitted: pass ``disable_unk`` and ``suppress_sequences`` (pad and bos) in each call.

    Args:
        folder: created if it does not exist; an earlier model that this function wrote is replaced.
        quantization: the data type of the stored weights.

    Raises:
        NmtError: CTranslate2 is not installed, or cannot express this model.
        OutputError: ``folder`` holds something else.
        WriteError: a file could not be written.
    """
    check_replaceable(folder, CTRANSLATE2, option=None)
    try:
        from ctranslate2.specs import TransformerSpec
    except ImportError:
        raise NmtError("CTranslate2 is not installed here. Install it: `pip install ctranslate2`.") from None
    model, vocab = bundle.config.model, bundle.vocab
    check_attention(model, str(bundle.folder), "CTranslate2")
    # Copies, because CTranslate2 quantizes in place.
    weights = {name: weight.clone() for name, weight in bundle.weights.items()}
    spec = TransformerSpec.from_config(
        (model.encoder_layers, model.decoder_layers), model.heads, pre_norm=model.norm == "pre"
    )
    spec.config.layer_norm_epsilon = model.norm_epsilon
    # Our matrix is padded with rows beyond the pieces, which are left out.
    embedding_VD = weights["embedding.weight"][: vocab.size]
    for part in (spec.encoder.embeddings[0], spec.decoder.embeddings, spec.decoder.projection):
        part.weight = embedding_VD
    spec.encoder.position_encodings.encodings = _positions(model, weights, "source")
    spec.decoder.position_encodings.encodings = _positions(model, weights, "target")
    for index, layer in enumerate(spec.encoder.layer):
        name = f"encoder.{index}"
        _set_self_attention(layer.self_attention, weights, name)
        _set_feed_forward(layer.ffn, weights, name)
    for index, layer in enumerate(spec.decoder.layer):
        name = f"decoder.{index}"
        _set_self_attention(layer.self_attention, weights, name)
        _set_cross_attention(layer.attention, weights, name, model.d_model)
        _set_feed_forward(layer.ffn, weights, name)
    if model.norm == "pre":
        _set_norm(spec.encoder.layer_norm, weights, "encoder_norm")
        _set_norm(spec.decoder.layer_norm, weights, "decoder_norm")
    pieces = vocab.pieces(range(vocab.size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.validate()
    spec.optimize(quantization)
    with replacing_folder(folder, CTRANSLATE2) as temporary:
        spec.save(str(temporary))
        notes = {"exported": {"form": "CTranslate2", "quantization": quantization, "nmt": nmt.__version__}}
        write_file(temporary / _NOTES_NAME, (json.dumps(notes, indent=2) + "\n").encode())


def _positions(model: ModelConfig, weights: Mapping[str, Tensor], side: str) -> Tensor:
    # CTranslate2 would make sinusoids of its own, with other rates and in another order.
    fixed = fixed_positions(model.positions, model.max_positions, model.d_model)
    return weights[f"{side}_positions.weight"] if fixed is None else fixed.float()


def _set_self_attention(spec: Any, weights: Mapping[str, Tensor], layer: str) -> None:
    _set_linear(spec.linear[0], weights, f"{layer}.self_attention.query_key_value")
    _set_linear(spec.linear[1], weights, f"{layer}.self_attention.output")
    _set_norm(spec.layer_norm, weights, f"{layer}.self_attention_norm")


def _set_cross_attention(spec: Any, weights: Mapping[str, Tensor], layer: str, query_rows: int) -> None:
    projection = f"{layer}.cross_attention.query_key_value"
    _set_linear(spec.linear[0], weights, projection, slice(query_rows))
    _set_linear(spec.linear[1], weights, projection, slice(query_rows, None))
    _set_linear(spec.linear[2], weights, f"{layer}.cross_attention.output")
    _set_norm(spec.layer_norm, weights, f"{layer}.cross_attention_norm")


def _set_feed_forward(spec: Any, weights: Mapping[str, Tensor], layer: str) -> None:
    _set_linear(spec.linear_0, weights, f"{layer}.feed_forward.inner")
    _set_linear(spec.linear_1, weights, f"{layer}.feed_forward.output")
    _set_norm(spec.layer_norm, weights, f"{layer}.feed_forward_norm")


def _set_linear(spec: Any, weights: Mapping[str, Tensor], name: str, rows: slice = slice(None)) -> None:
    spec.weight = weights[f"{name}.weight"][rows]
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"][rows]


def _set_norm(spec: Any, weights: Mapping[str, Tensor], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
