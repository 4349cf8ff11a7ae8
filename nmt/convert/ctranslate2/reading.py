"""Reading a model of CTranslate2: a folder with model.bin and its vocabularies, or a package of Argos Translate."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.config import Config, DataConfig, DecodingConfig, read_config
from nmt.convert.ctranslate2.model_file import read_variables, stored_tensors
from nmt.convert.files import COPY_AGAIN, listed, optional_mapping, read_pieces, read_text, shown
from nmt.convert.foreign import (
    COMPOSED,
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    PROJECTIONS,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    Array,
    ForeignModel,
    Given,
    Naming,
)
from nmt.convert.huggingface.multilingual import MULTILINGUAL
from nmt.convert.segmenters import find_segmenters, read_codes, segmented_vocabularies, start_piece
from nmt.convert.settings import Settings, expressible, unknown_remarks, version_of
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model
from nmt.data.data_folder import vocabulary_files
from nmt.errors import CheckpointError, NmtError
from nmt.text.steps import Affix, MosesPunctuation, MosesTokenize, TextSteps

MODEL_NAME = "model.bin"
_CONFIG, _METADATA = "config.json", "metadata.json"
_OWN_CONFIG = "config.yaml"
_PACKAGE_CODES = "bpe.model"
"""The codes of subword-nmt in a package without a SentencePiece model. Argos Translate uses Moses' tokeniser before."""
_ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu", 4: "quick_gelu"}
_EPSILON = 1e-5
"""CTranslate2's, where the settings name none."""
_PARTS = ("encoder", "decoder")
_ATTENTIONS = {
    "encoder": {"self_attention": "self_attention"},
    "decoder": {"self_attention": "self_attention", "cross_attention": "attention"},
}
_NORM = {"weight": "layer_norm/gamma", "bias": "layer_norm/beta"}
_SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_CONFIG_SETTINGS = expressible("CTranslate2")
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("add_source_bos", "add_source_eos"), (bool,)),
    **dict.fromkeys(_SPECIAL, (str,)),
    "layer_norm_epsilon": (float, int, type(None)),
}
"""What CTranslate2 fails at otherwise, when it translates."""
_FLAGS_OF_VERSION_5 = ("with_source_bos", "with_source_eos", "with_target_bos")
_PADS = ("<pad>", "<blank>")
_MANY_LANGUAGES = 10
_ATTRIBUTES = frozenset(
    {"activation", "alignment_heads", "alignment_layer", "multiply_by_sqrt_depth", "num_heads", "pre_norm"}
    | {"scale_embeddings", "start_from_zero_embedding"}
)
"""The attributes that have a meaning here, or none; others must be off."""
_SOURCE_EMBEDDING_BEFORE_2_12 = "encoder/embeddings/weight"
_LAYER = {part: re.compile(rf"{part}/layer_(\d{{1,5}})/") for part in _PARTS}
_SEARCH = DecodingConfig(beam=2, length_penalty=1, length_normalization="length")
_SEARCH_OF_ARGOS = DecodingConfig(beam=4, length_penalty=0.2, length_normalization="length")
_NO_EOS = (
    "The settings say that nothing is added to sources, so they are read without eos. If the users of the model add it "
    "by themselves, as those of Hugging Face tokenizers do, import the model that it was converted from."
)


def _names() -> dict[str, str]:
    """Our parameters -> the variables, once queries, keys and values are apart."""
    names = {
        SOURCE_EMBEDDING: "encoder/embeddings_0/weight",
        TARGET_EMBEDDING: "decoder/embeddings/weight",
        OUTPUT: "decoder/projection/weight",
        OUTPUT_BIAS: "decoder/projection/bias",
        POSITIONS[0]: "encoder/position_encodings/encodings",
        POSITIONS[1]: "decoder/position_encodings/encodings",
    }
    for part, attentions in _ATTENTIONS.items():
        ours, theirs = f"{part}.{{n}}", f"{part}/layer_{{n}}"
        for end, norm in _NORM.items():
            names[f"{part}_norm.{end}"] = f"{part}/{norm}"
            names[f"{ours}.feed_forward_norm.{end}"] = f"{theirs}/ffn/{norm}"
            names[f"{ours}.feed_forward.inner.{end}"] = f"{theirs}/ffn/linear_0/{end}"
            names[f"{ours}.feed_forward.output.{end}"] = f"{theirs}/ffn/linear_1/{end}"
            for attention, their_attention in attentions.items():
                names[f"{ours}.{attention}_norm.{end}"] = f"{theirs}/{their_attention}/{norm}"
                for projection in (*PROJECTIONS, "output"):
                    names[f"{ours}.{attention}.{projection}.{end}"] = f"{theirs}/{their_attention}/{projection}/{end}"
    return names


NAMES = _names()


def is_ctranslate2(path: Path) -> bool:
    """Whether a path looks like a folder of CTranslate2, or like a package of Argos Translate."""
    return (model_folder(path) / MODEL_NAME).is_file()


def model_folder(path: Path) -> Path:
    """The folder of the model: the path itself, or ``model`` in the folder of a package."""
    return path if (path / MODEL_NAME).is_file() else path / "model"


def read_ctranslate2(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of CTranslate2. Weights that are stored in fewer bits become the numbers that they stand for.

    Args:
        path: its folder; or that of a package of Argos Translate, whose files may lie side by side.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    folder = model_folder(path)
    _check_own_vocabulary(folder)
    weights, metadata_file, config_file = folder / MODEL_NAME, path / _METADATA, folder / _CONFIG
    metadata = optional_mapping(metadata_file)
    kind = metadata.get("type", "translate")
    if kind != "translate":
        raise CheckpointError(f"{path}: is a package of the type {shown(kind)}, not translate. Import another one.")
    values = read_variables(weights)
    attributes = Settings(
        {name: array.item() for name, array in values.items() if array.ndim == 0 and not name.endswith("weight_scale")},
        str(weights),
    )
    settings = Settings(_settings_of_version_5(values, attributes) | optional_mapping(config_file), str(config_file))
    for key, kinds in _TYPES.items():
        if key in settings and type(settings[key]) not in kinds:
            raise settings.refusal(key, settings[key], f"a value of type {kinds[0].__name__}")
    settings.check(_CONFIG_SETTINGS)
    tensors = {tensor.name: tensor.numbers for tensor in stored_tensors(values, weights)}
    ours = _model_settings(attributes, tensors, settings)
    is_scaled = _is_scaled(attributes, ours["d_model"])
    languages = given.languages(metadata.get("from_code"), metadata.get("to_code"))
    segmenters = find_segmenters(path, given, languages)
    has_codes = bool(metadata) and segmenters == (None, None) and path.joinpath(_PACKAGE_CODES).is_file()
    package_codes = path / _PACKAGE_CODES if has_codes else None
    vocabularies = [_vocabulary_file(folder, side) for side in ("source", "target")]
    special = {key: str(settings.get(key, usual)) for key, usual in _SPECIAL.items()}
    pieces = [_pieces(file, special["unk_token"]) for file in vocabularies]
    # Neither side ever uses it, so one piece serves both.
    special["pad_token"] = next((pad for pad in _PADS if pad in pieces[1]), _PADS[0])
    source, target = segmented_vocabularies(
        pieces,
        segmenters,
        vocabularies,
        special,
        codes=[read_codes(package_codes)] * 2,
        source_eos=ours["source_eos"],
        needs_pad=False,
    )
    prefix = metadata.get("target_prefix")
    named = [piece for piece in target.pieces if any(kind.language.fullmatch(piece) for kind in MULTILINGUAL.values())]
    if len(named) >= _MANY_LANGUAGES and not prefix:
        raise CheckpointError(
            f"{folder}: is a model for many languages ({listed(named)}), and its settings do not say which pieces name "
            "them. Import the model of Hugging Face that it was converted from."
        )
    start = settings.get("decoder_start_token", special["bos_token"])
    if ours["decoder_start"] == "zero" and start not in target.pieces:
        start = None  # its vector is not read, and Marian's vocabularies lack the piece that converters name
    else:
        start = start_piece(start, target, str(config_file))
    own = _own_config(folder)
    text = own.data.steps
    if has_codes:
        text = TextSteps(
            (
                *text.source,
                MosesPunctuation(language=languages[0], removes_control=False),
                MosesTokenize(language=languages[0]),
            ),
            (*text.target, MosesTokenize(language=languages[1])),
        )
    if prefix:
        prefix = start_piece(prefix, target, f"{metadata_file}, target_prefix")
        target = replace(target, silent=(prefix,))
        text = replace(text, target=(*text.target, Affix(chosen_by="target", pieces={languages[1]: prefix})))
    remarks = [*unknown_remarks(settings, _CONFIG_SETTINGS, "CTranslate2")]
    if stored := sorted({array.dtype.name for name, array in values.items() if f"{name}_scale" in values}):
        remarks.append(f"Its weights were stored as {', '.join(stored)}: the bundle has the rounded ones.")
    if not ours["source_eos"] and not metadata:
        remarks.append(_NO_EOS)
    return foreign_model(
        str(weights),
        ours,
        toolkit="Argos Translate" if metadata else "CTranslate2",
        version=version_of(metadata.get("argos_version")),
        decoding=_SEARCH_OF_ARGOS if metadata else own.decoding,
        text=text,
        tensors=tensors,
        naming=_naming(tensors),
        source=source,
        target=target,
        start=start,
        powers=NO_POWERS if is_scaled else UNSCALED,
        files=[
            weights,
            *vocabularies,
            *segmenters,
            package_codes,
            *filter(Path.is_file, (config_file, metadata_file)),
        ],
        languages=languages,
        settings=settings | attributes,
        remarks=remarks,
    )


def _settings_of_version_5(values: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    """Takes out the settings that a file of version 5 holds; newer models have them in ``config.json``."""
    settings: dict[str, Any] = {
        key: values.pop(key).tobytes().decode(errors="replace") for key in _SPECIAL if key in values
    }
    flags = {key: attributes.pop(key) for key in _FLAGS_OF_VERSION_5 if key in attributes}
    if flags:
        start = "bos_token" if flags.get("with_target_bos", 1) else "eos_token"
        settings |= {
            "add_source_bos": bool(flags.get("with_source_bos")),
            "add_source_eos": bool(flags.get("with_source_eos")),
            "decoder_start_token": settings.get(start, _SPECIAL[start]),
        }
    return settings


def _own_config(folder: Path) -> Config:
    """The settings that nmt wrote beside a model that it exported; without them, what imported models have."""
    try:
        return read_config(folder / _OWN_CONFIG)
    except (NmtError, OSError):
        data = DataConfig(source_text=COMPOSED.source, target_text=COMPOSED.target)
        return Config(decoding=_SEARCH, data=data)


def _check_own_vocabulary(folder: Path) -> None:
    """Refuse what nmt exported if codes split its words: the codes are in the list of pieces of the bundle alone.

    Raises:
        CheckpointError: they do.
    """
    _, pieces, _, target_pieces = vocabulary_files(BundleFolder(folder).vocab)
    if any(optional_mapping(file).get("codes") for file in (pieces, target_pieces)):
        raise CheckpointError(
            f"{folder}: was exported by nmt, and byte-pair codes split its words, which an import would lose. Import "
            "the bundle that it was made from. To translate with this folder, use --engine ctranslate2."
        )


def _vocabulary_file(folder: Path, side: str) -> Path:
    names = [f"{start}_vocabulary.{end}" for start in ("shared", side) for end in ("json", "txt")]
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise CheckpointError(f"{folder}: has none of {', '.join(names)}. {COPY_AGAIN}")
    return found


def _naming(tensors: Mapping[str, Array]) -> Naming:
    """Where the parameters lie. Biases that no layer has are left out."""
    names = {ours: name for ours, name in NAMES.items() if "bias" not in ours or name.format(n=0) in tensors}
    if _SOURCE_EMBEDDING_BEFORE_2_12 in tensors:
        names[SOURCE_EMBEDDING] = _SOURCE_EMBEDDING_BEFORE_2_12
    return Naming(names)


def _pieces(path: Path, unk: str) -> list[str]:
    """The pieces of a vocabulary. CTranslate2 adds the unknown piece where it is missing."""
    if path.suffix == ".json":
        pieces = read_pieces(path)
    else:
        pieces = read_text(path, keep_returns=True).removesuffix("\n").split("\n")
        if all(piece.endswith("\r") for piece in pieces):  # otherwise it is a character of the piece
            pieces = [piece[:-1] for piece in pieces]
    return pieces if unk in pieces else [*pieces, unk]


def _model_settings(attributes: Settings, tensors: Mapping[str, Array], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of our model.

    Raises:
        CheckpointError: our model cannot express one. The message names it.
    """
    others = {key: value for key, value in attributes.items() if key.rpartition("/")[2] not in _ATTRIBUTES and value}
    if others:
        key, value = next(iter(others.items()))
        raise attributes.refusal(shown(key), value)
    heads = _of_both(attributes, "num_heads", "different numbers of heads")
    activation = _of_both(attributes, "activation", "two activations") or 0
    if activation not in _ACTIVATIONS:
        named, known = {1: "GELU with tanh"}.get(activation, shown(activation)), ", ".join(_ACTIVATIONS.values())
        raise CheckpointError(f"{attributes.name}: has activation {named}; nmt has {known}.")
    layers = {part: [0, *(int(found[1]) + 1 for found in map(_LAYER[part].match, tensors) if found)] for part in _PARTS}
    embedding, inner = tensors.get(NAMES[TARGET_EMBEDDING]), tensors.get("encoder/layer_0/ffn/linear_0/weight")
    if embedding is None:
        raise CheckpointError(f"{attributes.name}: lacks {NAMES[TARGET_EMBEDDING]}. {COPY_AGAIN}")
    is_pre = _of_both(attributes, "pre_norm", "norms before layers in one part only")
    # Without a table, CTranslate2 computes positions that count from 1.
    has_table = any(NAMES[side] in tensors for side in POSITIONS)
    positions = {"positions": "sinusoidal"} if has_table else {"positions": "tensor2tensor", "first_position": 1}
    # Marian alone starts with zeros, and reads eos behind each source. Tokenizers of MarianMT add it, not CTranslate2.
    starts_with_zeros = bool(attributes.get("decoder/start_from_zero_embedding"))
    return {
        "encoder_layers": max(layers["encoder"]),
        "decoder_layers": max(layers["decoder"]),
        "d_model": embedding.shape[-1],
        "d_ff": None if inner is None else inner.shape[0],
        "heads": heads,
        "norm": "post" if is_pre == 0 else "pre",
        "norm_epsilon": settings.get("layer_norm_epsilon") or _EPSILON,
        "activation": _ACTIVATIONS[activation],
        "attention_bias": any("attention/" in tensor and tensor.endswith("/bias") for tensor in tensors),
        "output_bias": True,  # so that pieces that the model lacks get no probability
        "source_eos": settings.get("add_source_eos") is True or starts_with_zeros,
        "decoder_start": "zero" if starts_with_zeros else "bos",
        "alignment_layer": _alignment_layer(attributes),
        **positions,
    }


def _alignment_layer(attributes: Settings) -> int | None:
    """The layer whose first head learnt alignments. Converters write -1 where they do not know whether one did."""
    layer, heads = (attributes.get(f"decoder/alignment_{name}") for name in ("layer", "heads"))
    return layer + 1 if heads == 1 and isinstance(layer, int) and layer >= 0 else None


def _of_both(attributes: Settings, key: str, needs: str) -> Any:
    """The value that encoder and decoder share; before CTranslate2 3.0 the model itself has it."""
    return attributes.equal([key, *(f"{part}/{key}" for part in _PARTS)], needs)


def _is_scaled(attributes: Settings, d_model: int) -> bool:
    """Whether embeddings are multiplied by sqrt(d_model): by a flag that is on by default, or by the factor."""
    values = [
        attributes.get(f"{part}/scale_embeddings", attributes.get(f"{part}/embeddings/multiply_by_sqrt_depth", 1))
        for part in _PARTS
    ]
    # A whole number is a flag, another one the factor itself.
    factors = [d_model**0.5 if value else 1.0 for value in values if isinstance(value, int)]
    factors += [value for value in values if isinstance(value, float)]
    is_scaled = math.isclose(factors[0], d_model**0.5, rel_tol=1e-6)
    if not math.isclose(*factors, rel_tol=1e-6) or not (is_scaled or factors[0] == 1):
        raise CheckpointError(
            f"{attributes.name}: multiplies embeddings by {factors[0]:g} and {factors[1]:g}; nmt multiplies both by "
            "sqrt(d_model), or none."
        )
    return is_scaled
