"""Reading a model of Sockeye 3: its folder with ``config``, ``params.best`` and two vocabularies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import ModelConfig
from nmt.config.documents import parse_json
from nmt.convert.completing import BEAM_OF_5, completed, files_by_name
from nmt.convert.foreign import (
    ATTENTION,
    Array,
    ForeignModel,
    ForeignVocabulary,
    Layout,
    Names,
    Part,
    weight_and_bias,
)
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.messages import shown
from nmt.convert.segmenters import find_segmenters, segmented_vocabulary
from nmt.convert.settings import only_file, plain_settings, read_yaml_settings
from nmt.convert.sockeye.settings import TABLES, model_config
from nmt.convert.tensors import check_layer_counts, read_tensors
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError, VocabularyError

PAD, UNK, BOS, EOS = SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""The pieces that every vocabulary begins with."""
_CONFIG, _VERSION = "config", "version"
_VOCABULARIES = ("vocab.src.0.json", "vocab.trg.0.json")
_PARAMETERS = ("params.best",)
_LARGEST_CONFIG = 256 * 2**10
# Possessive, so that a long line of white space takes linear time.
_TAG = re.compile(r"^([ \t]*+(?:- )*(?:[\w-]++:)?[ \t]*+)!{1,2}[\w/.:]+", re.MULTILINE)
_LENGTH_RATIO = "length_ratio."
"""Tensors that predict the length of outputs, beside the model."""


def is_sockeye(path: Path) -> bool:
    """Whether a path looks like a model of Sockeye: a folder with its vocabularies, or the parameters within."""
    folder = path if path.is_dir() else path.parent
    is_parameters = path.is_dir() or path.name.startswith("params.")
    return is_parameters and (folder / _CONFIG).is_file() and (folder / _VOCABULARIES[0]).is_file()


def read_sockeye(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of Sockeye 3.

    Args:
        path: its folder, or a file of parameters in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, _PARAMETERS, "params.*", "the file of parameters") if path.is_dir() else path
    folder, name = weights.parent, str(weights)
    version = _read_version(folder / _VERSION)
    settings = _flat(read_yaml_settings(folder / _CONFIG, _without_tags))
    file = read_torch_file(weights)
    stored = read_tensors(file, file.value)
    stored = {key: array for key, array in stored.items() if "traced" not in key and not key.startswith(_LENGTH_RATIO)}
    config = model_config(settings, stored, str(folder / _CONFIG))
    check_layer_counts(stored, [config.encoder_layers, config.decoder_layers], name)
    tensors = split_projections(stored, config, name)
    segmenters = find_segmenters(folder, given, given.source_lang or "", given.target_lang or "")
    vocabularies = [folder / file_name for file_name in _VOCABULARIES]
    source, target = (
        _read_vocabulary(vocabulary, segmenter) for vocabulary, segmenter in zip(vocabularies, segmenters, strict=True)
    )
    layout = _layout(config)
    present = [path for path in (folder / _VERSION,) if path.is_file()]
    model = ForeignModel(
        toolkit="Sockeye",
        version=version,
        config=config,
        decoding=BEAM_OF_5,
        tensors=tensors,
        layout=layout,
        source=source,
        target=target,
        start=BOS,
        files=files_by_name([weights, folder / _CONFIG, *present, *vocabularies, *segmenters]),
        source_lang=given.source_lang or "",
        target_lang=given.target_lang or "",
        settings=plain_settings(settings),
        ignored=layout.position_tables,
    )
    return completed(model, name)


def split_projections(tensors: Mapping[str, Array], config: ModelConfig, name: str) -> dict[str, Array]:
    """Tensors with each projection of the attentions by itself: ``FUSED[query]``, ``FUSED[key]`` and ``FUSED[value]``.

    Sockeye stores queries first, then keys and values of each head in turn.

    Raises:
        CheckpointError: a matrix does not hold as many projections as it should.
    """
    split: dict[str, Array] = {}
    for key, array in tensors.items():
        parts = 3 if key.endswith(".ff_in.weight") else 2 if key.endswith(".ff_kv.weight") else 0
        if not parts:
            split[key] = array
            continue
        if array.shape != (parts * config.d_model, config.d_model) or config.d_model % config.heads:
            raise CheckpointError(
                f"{name}: {shown(key)} does not hold {parts} projections of {config.d_model} numbers."
            )
        if parts == 3:
            split[f"{key}[query]"] = array[: config.d_model]
        key_and_value = array[-2 * config.d_model :].reshape(config.heads, 2, -1, config.d_model)
        for index, part in enumerate(("key", "value")):
            split[f"{key}[{part}]"] = np.ascontiguousarray(key_and_value[:, index]).reshape(
                config.d_model, config.d_model
            )
    return split


def _read_version(path: Path) -> str | None:
    try:
        version = path.read_text(encoding="utf-8")[:40].strip()
    except (OSError, ValueError):
        return None
    if not version.startswith("3."):
        raise CheckpointError(
            f"{path}: was written by Sockeye {shown(version)}. Only models of Sockeye 3 can be imported."
        )
    return shown(version)


def _without_tags(text: str) -> str:
    """Each part of the settings is tagged with the name of its class."""
    return _TAG.sub(r"\1", text)


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, with those of a part as ``PART.KEY``."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": of_inner for inner, of_inner in value.items()}
        else:
            flat[key] = value
    return flat


def _read_vocabulary(path: Path, segmenter: Path | None) -> ForeignVocabulary:
    try:
        ids = parse_json(path.read_bytes())
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise VocabularyError(f"{path}: {shown(error)}") from None
    if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
        raise VocabularyError(f"{path}: is not a vocabulary of Sockeye: expected a mapping from pieces to ids.")
    pieces = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))):
        raise VocabularyError(f"{path}: its ids are not 0, 1, 2, … without gaps.")
    if tuple(pieces[: len(SPECIAL)]) != SPECIAL:
        raise VocabularyError(f"{path}: does not begin with {', '.join(SPECIAL)}: is it a vocabulary of Sockeye?")
    return segmented_vocabulary(pieces, segmenter, str(path), unk=UNK, eos=EOS, pad=PAD)


def _layout(config: ModelConfig) -> Layout:
    attentions: dict[Part, dict[str, str]] = {
        "encoder": {"self_attention": "self_attention"},
        "decoder": {"self_attention": "autoregr_layer", "cross_attention": "enc_attention"},
    }
    place = config.norm
    linears: dict[tuple[Part, str], Names] = {}
    norms: dict[tuple[Part, str], Names] = {}
    for part, sites in attentions.items():
        layer = f"{part}.layers.{{layer}}"
        for site, attention in sites.items():
            fused = f"{layer}.{attention}.{'ff_in' if site == 'self_attention' else 'ff_kv'}.weight"
            for ours in ATTENTION[:3]:
                linears[part, f"{site}.{ours}"] = Names(f"{fused}[{ours}]", None)
            linears[part, f"{site}.output"] = Names(f"{layer}.{attention}.ff_out.weight", None)
            norms[part, f"{site}_norm"] = weight_and_bias(f"{layer}.{place}_{attention}.layer_norm")
        linears[part, "feed_forward.inner"] = weight_and_bias(f"{layer}.ff.ff1")
        linears[part, "feed_forward.output"] = weight_and_bias(f"{layer}.ff.ff2")
        norms[part, "feed_forward_norm"] = weight_and_bias(f"{layer}.{place}_ff.layer_norm")
        norms[part, "norm"] = weight_and_bias(f"{part}.final_process.layer_norm")
    linears["decoder", "cross_attention.query"] = Names("decoder.layers.{layer}.enc_attention.ff_q.weight", None)
    tables: dict[Part, str] = {"encoder": TABLES[0], "decoder": TABLES[1]}
    is_learned = config.positions == "learned"
    return Layout(
        linears,
        norms,
        source_embedding="embedding_source.embedding.weight",
        target_embedding="embedding_target.embedding.weight",
        output="output_layer.weight",
        output_bias="output_layer.bias",
        positions=tables if is_learned else {},
        position_tables=() if is_learned else TABLES,
    )
