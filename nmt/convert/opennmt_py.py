"""Reading a model of OpenNMT-py: a checkpoint (``.pt``) that holds settings and vocabularies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.convert.files import has_files
from nmt.convert.foreign import BEAM_OF_5, Array, ForeignModel, Given, Naming, matrices, torch_names
from nmt.convert.segmenters import (
    find_segmenters,
    named_codes,
    named_subwords,
    read_codes,
    segmented_vocabularies,
    start_piece,
)
from nmt.convert.settings import Settings, expressible, only_file, unknown_remarks
from nmt.convert.tensors import foreign_model, read_tensors
from nmt.convert.torch_files import Bag, read_torch_file, without_tensors
from nmt.errors import CheckpointError, VocabularyError

_SPECIAL = {"pad_token": "<blank>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_SIDES = ("src", "tgt")
_NONE: tuple[Path | None, Path | None] = (None, None)
_NORM_EPSILON = 1e-6
_ACTIVATION, _POSITIONS = "pos_ffn_activation_fn", "position_encoding_type"
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu"}
_KINDS_OF_POSITIONS = {"SinusoidalInterleaved": "sinusoidal", "SinusoidalConcat": "tensor2tensor"}
_UNNORMALISED = BEAM_OF_5.model_copy(update={"length_penalty": 0.0})
_SETTINGS = expressible("OpenNMT-py")
_OLD_NORM = re.compile(r"(.*layer_norm(?:_\d)?)\.([ab])_2")
_MASKS = (".mask",)
_PROJECTIONS = ("linear_query", "linear_keys", "linear_values", "final_linear")
_FEED_FORWARD = {
    "feed_forward.inner": "feed_forward.w_1",
    "feed_forward.output": "feed_forward.w_2",
    "feed_forward_norm": "feed_forward.layer_norm",
}
_ENCODER = {"self_attention": "self_attn", "self_attention_norm": "layer_norm", **_FEED_FORWARD}
_DECODER = {
    "self_attention": "self_attn",
    "self_attention_norm": "layer_norm_1",
    "cross_attention": "context_attn",
    "cross_attention_norm": "layer_norm_2",
    **_FEED_FORWARD,
}
_LAYERS = ("encoder.transformer.{n}", "decoder.transformer_layers.{n}")
_NAMES = torch_names(_LAYERS, _ENCODER, _DECODER, _PROJECTIONS) | matrices(
    "encoder.embeddings.make_embedding.emb_luts.0.weight",
    "decoder.embeddings.make_embedding.emb_luts.0.weight",
    "generator.weight",
    bias="generator.bias",
    positions=("encoder.embeddings.make_embedding.pe.pe", "decoder.embeddings.make_embedding.pe.pe"),
)
_OPTIONAL_BIASES = {"_attention.": "add_qkvbias", ".feed_forward.": "add_ffnbias"}
"""Part of the name of our bias -> the setting that tells whether the module has one. Before version 3 there is no such
setting, and all have."""


def is_opennmt_py(path: Path) -> bool:
    """Whether a path looks like a model of OpenNMT-py: a ``.pt`` file, or a folder with one."""
    return has_files(path, "*.pt")


def read_opennmt_py(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of OpenNMT-py 1 to 3.

    Args:
        path: a checkpoint, or a folder with a single one.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, (), "*.pt", "the checkpoint") if path.is_dir() else path
    name = str(weights)
    values = read_torch_file(weights)
    settings = Settings(_settings(values, name), name)
    tensors = _tensors(values, weights)
    transforms, named, codes = settings.get("transforms"), _NONE, _NONE
    if isinstance(transforms, list) and "sentencepiece" in transforms:
        named = named_subwords(weights.parent, settings)
    elif isinstance(transforms, list) and "bpe" in transforms:
        codes = named_codes(weights.parent, settings)
    segmenters = find_segmenters(weights.parent, given, given.languages(), named=named)
    vocabularies = values.get("vocab")
    source, target = segmented_vocabularies(
        [_pieces(vocabularies, side, name) for side in _SIDES],
        segmenters,
        [f"{name}, {side}" for side in _SIDES],
        _SPECIAL,
        codes=map(read_codes, codes),
        source_eos=False,
    )
    return foreign_model(
        name,
        _model_settings(settings, tensors),
        toolkit="OpenNMT-py",
        version=None,
        # Version 3, the first with lists of pieces, divides by the length unless told otherwise; those before do not.
        decoding=BEAM_OF_5 if isinstance(vocabularies.get("src"), list) else _UNNORMALISED,
        tensors=tensors,
        naming=_naming(settings, tensors),
        source=source,
        target=target,
        start=start_piece(vocabularies.get("decoder_start_token", _SPECIAL["bos_token"]), target, name),
        files=[weights, *segmenters, *codes],
        languages=given.languages(),
        settings=settings,
        remarks=unknown_remarks(settings, _SETTINGS, "OpenNMT-py"),
    )


def _settings(values: Any, name: str) -> dict[str, Any]:
    """``opt`` of the checkpoint."""
    settings = values.get("opt") if isinstance(values, Mapping) else None
    if not isinstance(settings, Bag) or "vocab" not in values:
        raise CheckpointError(
            f"{name}: has no opt and vocab, so it is not a checkpoint of OpenNMT-py. If it is one of fairseq, put "
            "its dictionaries (dict.LANG.txt) beside it."
        )
    return without_tensors(settings.attributes, name)


def _model_settings(settings: Settings, tensors: Mapping[str, Array]) -> dict[str, Any]:
    """The settings of our model.

    Args:
        settings: ``opt`` of the checkpoint.
        tensors: by name; they tell whether attentions have biases.

    Raises:
        CheckpointError: our model cannot express a setting. The message names it.
    """
    settings.setdefault("position_encoding", False)
    settings.check(_SETTINGS)
    sizes = tuple(f"{part}_{size}" for part in ("enc", "dec") for size in ("hid_size", "rnn_size"))
    words = ("src_word_vec_size", "tgt_word_vec_size")
    common = _positive(settings, "hidden_size") or _positive(settings, "rnn_size")
    layers = _positive(settings, "layers")
    return {
        "encoder_layers": layers or settings.get("enc_layers"),
        "decoder_layers": layers or settings.get("dec_layers"),
        "d_model": common or settings.equal((*sizes, *words), "an encoder and a decoder of different sizes"),
        "d_ff": settings.get("transformer_ff"),
        "heads": settings.get("heads"),
        "norm": "pre",
        "norm_epsilon": settings.get("norm_eps") or _NORM_EPSILON,
        "activation": settings.choose(_ACTIVATION, "relu", _ACTIVATIONS),
        "positions": settings.choose(_POSITIONS, "SinusoidalInterleaved", _KINDS_OF_POSITIONS),
        "attention_bias": any(key.endswith("_attn.linear_query.bias") for key in tensors),
        "output_bias": True,
        "source_eos": False,
    }


def _positive(settings: Mapping[str, Any], key: str) -> int | None:
    """A number that stands for two settings if it is above 0."""
    value = settings.get(key)
    return value if isinstance(value, int) and value > 0 else None


def _pieces(vocabularies: Any, side: str, name: str) -> list[str]:
    """The pieces of one side. Before OpenNMT-py 3 they lie within objects of torchtext."""
    pieces = vocabularies.get(side) if isinstance(vocabularies, Mapping) else None
    if isinstance(pieces, Bag):
        pieces = _within(pieces)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise VocabularyError(f"{name}: its vocabulary of {side} is not a list of pieces.")
    if isinstance(vocabularies.get(f"{side}_feats"), list) and vocabularies[f"{side}_feats"]:
        raise CheckpointError(f"{name}: has {side}_feats, which nmt does not have. It would need source features.")
    return pieces


def _within(field: Bag) -> Any:
    """The pieces in ``TextMultiField`` of OpenNMT-py, or in ``Field`` of torchtext."""
    fields = field.attributes.get("fields")
    if isinstance(fields, list):
        if len(fields) != 1 or not isinstance(fields[0], tuple) or not isinstance(fields[0][-1], Bag):
            return None
        field = fields[0][-1]
    vocabulary = field.attributes.get("vocab")
    return vocabulary.attributes.get("itos") if isinstance(vocabulary, Bag) else None


def _tensors(values: Mapping[str, Any], path: Path) -> dict[str, Array]:
    """The tensors of the model and of its generator, by the names of recent versions."""
    if "model" not in values:
        raise CheckpointError(f"{path}: holds no tensors: they were saved as safetensors. Save the model as pytorch.")
    tensors = {_current_name(name): array for name, array in read_tensors(path, values["model"], _MASKS).items()}
    generator = values.get("generator")
    for name, array in read_tensors(path, generator).items() if generator is not None else ():
        tensors[f"generator.{name.removeprefix('0.')}"] = array
    return tensors


def _current_name(name: str) -> str:
    """The name of a tensor since OpenNMT-py 1: before, norms were of its own making."""
    match = _OLD_NORM.fullmatch(name)
    return name if match is None else f"{match[1]}.{'weight' if match[2] == 'a' else 'bias'}"


def _naming(settings: Mapping[str, Any], tensors: Mapping[str, Array]) -> Naming:
    """The names of tensors, without biases that the settings say are not there."""

    def is_absent(ours: str, theirs: str) -> bool:
        option = next((option for part, option in _OPTIONAL_BIASES.items() if part in ours), None)
        is_optional = option is not None and ours.endswith(".bias") and settings.get(option) is False
        return is_optional and theirs.format(n=0) not in tensors

    return Naming({ours: theirs for ours, theirs in _NAMES.items() if not is_absent(ours, theirs)})
