"""Reading a model of Sockeye 3: its folder with ``config``, ``params.best`` and two vocabularies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from nmt.convert.files import has_files, read_json, read_text, shown
from nmt.convert.foreign import BEAM_OF_5, PROJECTIONS, Array, ForeignModel, Given, Naming, matrices, weights_and_biases
from nmt.convert.segmenters import find_segmenters, pieces_by_id, segmented_vocabularies
from nmt.convert.settings import Settings, expressible, flat, only_file, read_yaml_settings, unknown_remarks
from nmt.convert.tensors import foreign_model, read_tensors
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError, VocabularyError

_SPECIAL = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
"""The pieces that every vocabulary begins with."""
NORM_EPSILON = 1e-6
_CONFIG, _VERSION = "config", "version"
_VOCABULARIES = ("vocab.src.0.json", "vocab.trg.0.json")
_PARAMETERS = ("params.best",)
# Possessive, so that a long line of white space takes linear time.
_TAG = re.compile(r"^([ \t]*+(?:- )*(?:[\w-]++:)?[ \t]*+)!{1,2}[\w/.:]+", re.MULTILINE)
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish1": "swish"}
_POSITIONS = "positional_embedding_type"
_KINDS_OF_POSITIONS = {"fixed": "sinusoidal_halves", "learned": "learned"}
_PARTS = ("config_encoder", "config_decoder")
_SETTINGS = expressible("Sockeye")
_DEFAULT_STEPS = (("pre", "n"), ("post", "dr"))
_LENGTH_RATIO = "length_ratio."
"""Tensors that predict the length of outputs, beside the model."""
_ATTENTIONS = {
    "encoder.{n}.self_attention": "self_attention",
    "decoder.{n}.self_attention": "autoregr_layer",
    "decoder.{n}.cross_attention": "enc_attention",
}


def is_sockeye(path: Path) -> bool:
    """Whether a path looks like a model of Sockeye: a folder with its vocabularies, or the parameters within."""
    return has_files(path, "params.*", _CONFIG, _VOCABULARIES[0])


def read_sockeye(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of Sockeye 3.

    Args:
        path: its folder, or a file of parameters in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, _PARAMETERS, "params.*", "the file of parameters") if path.is_dir() else path
    folder, name = weights.parent, str(weights)
    version = _read_version(folder / _VERSION)
    settings = Settings(
        flat(read_yaml_settings(folder / _CONFIG, _without_tags)),
        str(folder / _CONFIG),
        "config_encoder.{}",
        "config_decoder.{}",
    )
    ours = _model_settings(settings)
    stored = read_tensors(weights, read_torch_file(weights))
    stored = {key: array for key, array in stored.items() if "traced" not in key and not key.startswith(_LENGTH_RATIO)}
    segmenters = find_segmenters(folder, given, given.languages())
    vocabularies = [folder / file_name for file_name in _VOCABULARIES]
    source, target = segmented_vocabularies(map(_pieces, vocabularies), segmenters, vocabularies, _SPECIAL)
    present = [path for path in (folder / _VERSION,) if path.is_file()]
    return foreign_model(
        name,
        ours,
        toolkit="Sockeye",
        version=version,
        decoding=BEAM_OF_5,
        tensors=_split_projections(stored, ours["heads"], name),
        naming=_naming(ours["norm"]),
        source=source,
        target=target,
        start=_SPECIAL["bos_token"],
        files=[weights, folder / _CONFIG, *present, *vocabularies, *segmenters],
        languages=given.languages(),
        settings=settings,
        remarks=unknown_remarks(settings, _SETTINGS, "Sockeye"),
    )


def _read_version(path: Path) -> str | None:
    try:
        version = read_text(path)[:40].strip()
    except CheckpointError:
        return None
    if not version.startswith("3."):
        raise CheckpointError(
            f"{path}: was written by Sockeye {shown(version)}. Only models of Sockeye 3 can be imported."
        )
    return shown(version)


def _without_tags(text: str) -> str:
    """Each part of the settings is tagged with the name of its class."""
    return _TAG.sub(r"\1", text)


def _model_settings(settings: Settings) -> dict[str, Any]:
    """The settings of our model.

    Args:
        settings: those of the file ``config``, flat: ``config_encoder.model_size``.

    Raises:
        CheckpointError: our model cannot express a setting. The message names it.
    """
    settings.check(_SETTINGS)
    return {
        "encoder_layers": settings.get("config_encoder.num_layers"),
        "decoder_layers": settings.get("config_decoder.num_layers"),
        "d_model": settings.of_both("model_size", "an encoder and a decoder of different sizes"),
        "d_ff": settings.of_both("feed_forward_num_hidden", "feed-forward networks of different sizes"),
        "heads": settings.of_both("attention_heads", "different numbers of heads"),
        "norm": _norm(settings),
        "norm_epsilon": NORM_EPSILON,
        "activation": settings.choose("act_type", "relu", _ACTIVATIONS, "two kinds of activation"),
        "positions": settings.choose(_POSITIONS, "fixed", _KINDS_OF_POSITIONS, "positions of two kinds"),
        "attention_bias": False,
        "output_bias": True,
    }


def _norm(settings: Settings) -> Literal["pre", "post"]:
    """Where layers are normalised: Sockeye spells the steps before and after a sub-layer as letters."""
    steps = [
        tuple(str(settings.get(f"{part}.{place}process_sequence", default)) for place, default in _DEFAULT_STEPS)
        for part in _PARTS
    ]
    places = {tuple(step.replace("d", "") for step in of_part) for of_part in steps}
    if places == {("n", "r")}:
        return "pre"
    if places == {("", "rn")}:
        return "post"
    listed = ", ".join(
        f"{part}.{place}process_sequence: '{shown(step)}'"
        for part, of_part in zip(_PARTS, steps, strict=True)
        for (place, _), step in zip(_DEFAULT_STEPS, of_part, strict=True)
    )
    raise CheckpointError(
        f"{settings.name}: has {listed}, which nmt does not have. It has pre-norm ('n', 'dr') and post-norm "
        "('', 'drn')."
    )


def _pieces(path: Path) -> list[str]:
    pieces = pieces_by_id(read_json(path), str(path))
    if pieces[: len(_SPECIAL)] != [*_SPECIAL.values()]:
        first = ", ".join(_SPECIAL.values())
        raise VocabularyError(f"{path}: does not begin with {first}: is it a vocabulary of Sockeye?")
    return pieces


def _split_projections(tensors: Mapping[str, Array], heads: Any, name: str) -> dict[str, Array]:
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
        width = array.shape[-1] if array.ndim else 0
        if array.shape != (parts * width, width) or type(heads) is not int or heads < 1 or width % heads:
            raise CheckpointError(f"{name}: {shown(key)} does not hold {parts} projections of {shown(heads)} heads.")
        if parts == 3:
            split[f"{key}[query]"] = array[:width]
        key_and_value = array[-2 * width :].reshape(heads, 2, -1, width)
        for index, part in enumerate(("key", "value")):
            split[f"{key}[{part}]"] = np.ascontiguousarray(key_and_value[:, index]).reshape(width, width)
    return split


def _naming(norm: str) -> Naming:
    modules = {"encoder_norm": "encoder.final_process.layer_norm", "decoder_norm": "decoder.final_process.layer_norm"}
    for part in ("encoder", "decoder"):
        layer = f"{part}.layers.{{n}}"
        modules |= {
            f"{part}.{{n}}.feed_forward.inner": f"{layer}.ff.ff1",
            f"{part}.{{n}}.feed_forward.output": f"{layer}.ff.ff2",
            f"{part}.{{n}}.feed_forward_norm": f"{layer}.{norm}_ff.layer_norm",
        }
    projections: dict[str, str] = {}
    for ours, attention in _ATTENTIONS.items():
        layer = f"{ours.partition('.')[0]}.layers.{{n}}"
        modules[f"{ours}_norm"] = f"{layer}.{norm}_{attention}.layer_norm"
        fused = "ff_kv" if "cross" in ours else "ff_in"
        projections |= {f"{ours}.{one}.weight": f"{layer}.{attention}.{fused}.weight[{one}]" for one in PROJECTIONS}
        projections[f"{ours}.output.weight"] = f"{layer}.{attention}.ff_out.weight"
    return Naming(
        {
            **weights_and_biases(modules),
            **projections,
            "decoder.{n}.cross_attention.query.weight": "decoder.layers.{n}.enc_attention.ff_q.weight",
            **matrices(
                "embedding_source.embedding.weight",
                "embedding_target.embedding.weight",
                "output_layer.weight",
                bias="output_layer.bias",
                positions=("encoder.pos_embedding.weight", "decoder.pos_embedding.weight"),
            ),
        }
    )
