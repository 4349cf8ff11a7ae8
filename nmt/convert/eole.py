"""Reading a model of Eole: its folder with config.json, vocab.json and ``model.NN.safetensors``.

config.json holds only what a user set, so Eole's defaults are here. The encoder, the decoder and the embeddings take
over what ``model`` sets and they do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.files import has_files, listed, read_mapping, shown
from nmt.convert.foreign import BEAM_OF_5, POSITIONS, Array, ForeignModel, Given, Naming, matrices, torch_names
from nmt.convert.segmenters import (
    find_segmenters,
    named_codes,
    named_subwords,
    read_codes,
    segmented_vocabularies,
    start_piece,
)
from nmt.convert.settings import Settings, expressible, unknown_remarks, valid_settings, version_of
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model, read_safetensors
from nmt.errors import CheckpointError, VocabularyError

_CONFIG, _VOCABULARY, _SHARDS = "config.json", "vocab.json", "model.*.safetensors"
_SIDES = ("src", "tgt")
_PARTS = ("encoder", "decoder")
_SECTIONS = (*_PARTS, "embeddings")
_DEFAULTS: dict[str, Any] = {
    "layers": 2,
    "hidden_size": 512,
    "heads": 8,
    "transformer_ff": 2048,
    "mlp_activation_fn": "relu",
}
_UNSET_IF_NEGATIVE = ("layers", "hidden_size", "transformer_ff", "word_vec_size")
_OLD_EPSILON, _NEW_EPSILON = 1e-6, 1e-5
"""Before Eole 0.2, and since."""
_UNTOLD_EPSILON = (
    "The files do not tell norm_eps, nor which version of Eole wrote them. It is 1e-5, as in Eole 0.2 and later. If an "
    'earlier version trained the model, add "norm_eps": 1e-6 to model in config.json and import it again.'
)
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swish", "quick_gelu": "quick_gelu"}
_KINDS_OF_POSITIONS = {
    "SinusoidalInterleaved": "sinusoidal",
    "SinusoidalConcat": "tensor2tensor",
    "Learned": "learned",
}
_KIND_OF_POSITIONS, _USUAL_POSITIONS = "model.embeddings.position_encoding_type", "SinusoidalInterleaved"
_OTHER_POSITIONS = {"Rotary": "rotary positions", "Relative": "relative positions", "Alibi": "ALiBi"}
_SETTINGS = expressible("Eole")
"""With PART for encoder and decoder."""
_SPECIAL = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}
_OF_TRAINING = frozenset(
    ("filtertooshort", "filtertoolong", "clean", "switchout", "tokendrop", "tokenmask", "bart", "fuzzymatch")
)
"""Transforms that choose or spoil sentences of training."""
_SEGMENTING = frozenset(("sentencepiece", "bpe", "onmt_tokenize"))
_MOST_NAMED = 5
_SCALAR = re.compile(r"decoder\.transformer_layers\.\d+\.layer_scalar")
"""A factor that only layers with norms around the feed-forward network apply."""
_PROJECTIONS = ("linear_query", "linear_keys", "linear_values", "final_linear")
_ENCODER = {
    "self_attention": "self_attn",
    "self_attention_norm": "input_layernorm",
    "feed_forward.inner": "mlp.gate_up_proj",
    "feed_forward.output": "mlp.down_proj",
    "feed_forward_norm": "post_attention_layernorm",
}
_CROSS = {"cross_attention": "context_attn", "cross_attention_norm": "precontext_layernorm"}
_LAYERS = ("encoder.transformer_layers.{n}", "decoder.transformer_layers.{n}")
_NAMES = torch_names(_LAYERS, _ENCODER, _ENCODER | _CROSS, _PROJECTIONS)
_SOURCE, _TARGET, _OUTPUT = "src_emb.embeddings.weight", "tgt_emb.embeddings.weight", "generator.weight"
_TABLES, _LEARNED = ("src_emb.pe.pe", "tgt_emb.pe.pe"), ("src_emb.pe.weight", "tgt_emb.pe.weight")


def is_eole(path: Path) -> bool:
    """Whether a path looks like a model of Eole: its folder, or a file of tensors within."""
    return has_files(path, _SHARDS, _CONFIG, _VOCABULARY)


def read_eole(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of Eole, of any version to 0.6.

    Args:
        path: its folder, or a file in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    folder = path if path.is_dir() else path.parent
    config = str(folder / _CONFIG)
    values, vocabulary = read_mapping(folder / _CONFIG), read_mapping(folder / _VOCABULARY)
    told = _told(values, config)
    settings = Settings(_settings(values), config, "model.encoder.{}", "model.decoder.{}")
    _check_expressible(settings)
    has_specials = isinstance(vocabulary.get("specials"), dict)  # as since Eole 0.0.3
    shards = sorted(filter(Path.is_file, folder.glob(_SHARDS)))
    tensors, name = read_safetensors(shards), str(shards[0] if len(shards) == 1 else folder)
    epsilon, is_told = _norm_epsilon(settings, told, has_specials=has_specials)
    ours = _model_settings(settings, tensors) | {"norm_epsilon": epsilon}
    is_learned, is_normalized = ours["positions"] == "learned", bool(settings.get("model.embeddings.normalize"))
    if is_normalized and not is_learned:
        needs = "sinusoids that are multiplied by sqrt(hidden_size)"
        raise settings.refusal("model.embeddings.normalize", True, needs)
    if not is_learned and not has_specials and not any(table in tensors for table in _TABLES):
        # Eole 0.0.1 has sinusoids only where they are asked for.
        raise settings.refusal("model.embeddings.position_encoding", False, "no positions")
    segmenters = find_segmenters(folder, given, given.languages(), named=_named_models(values, folder))
    codes = named_codes(folder, _mapping(_mapping(values.get("transforms_configs")).get("bpe")))
    special = _special_pieces(vocabulary)
    source, target = segmented_vocabularies(
        [_pieces(vocabulary, side, folder / _VOCABULARY) for side in _SIDES],
        segmenters,
        [f"{folder / _VOCABULARY}, {side}" for side in _SIDES],
        special,
        codes=map(read_codes, codes),
        source_eos=False,
        needs_pad=False,
    )
    start = vocabulary.get("decoder_start_token", special["bos_token"])
    return foreign_model(
        name,
        ours,
        toolkit="Eole",
        version=version_of(settings.get("model.eole_version")),
        decoding=_decoding_config(_mapping(values.get("inference")), config),
        tensors=tensors,
        naming=_naming(settings, tensors, name, is_learned=is_learned),
        source=source,
        target=target,
        start=start_piece(start, target, str(folder / _VOCABULARY)),
        # Beside learned positions, Eole does not multiply embeddings by sqrt(hidden_size), or multiplies both.
        powers=dict.fromkeys(POSITIONS, 1) if is_normalized else UNSCALED if is_learned else NO_POWERS,
        files=[folder / _CONFIG, folder / _VOCABULARY, *shards, *segmenters, *codes],
        languages=given.languages(),
        settings=told,
        ignored=filter(_SCALAR.fullmatch, tensors),
        remarks=[
            *([] if is_told else [_UNTOLD_EPSILON]),
            *_text_remarks(values),
            *unknown_remarks(told, {key.rpartition(".")[2]: allowed for key, allowed in _SETTINGS.items()}, "Eole"),
        ],
    )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _told(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of the model in config.json, under names such as ``heads`` and ``encoder.heads``.

    Raises:
        CheckpointError: it has no model.
    """
    model = values.get("model")
    if not isinstance(model, dict):
        raise CheckpointError(f"{name}: has no settings of a model: is it a model of Eole?")
    of_model = {key: value for key, value in model.items() if key not in _SECTIONS or not isinstance(value, dict)}
    sections = {section: _mapping(model.get(section)) for section in _SECTIONS}
    return of_model | {f"{section}.{key}": value for section in _SECTIONS for key, value in sections[section].items()}


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """All settings, under names such as ``model.heads``, ``model.encoder.heads`` and ``training.quant_type``.

    A section of the model takes over what the model sets and it does not, and what is set nowhere is Eole's default.
    """
    model = _mapping(values.get("model"))
    inherited = {
        key: _DEFAULTS.get(key) if value is None or (key in _UNSET_IF_NEGATIVE and _is_negative(value)) else value
        for key, value in model.items()
    }
    settings = {f"model.{key}": value for key, value in model.items()}
    settings |= {f"training.{key}": value for key, value in _mapping(values.get("training")).items()}
    for section in _SECTIONS:
        of_section = _DEFAULTS | inherited | _mapping(model.get(section))
        settings |= {f"model.{section}.{key}": value for key, value in of_section.items()}
    return settings


def _is_negative(value: Any) -> bool:
    return isinstance(value, int) and value < 0


def _head_size(settings: Mapping[str, Any], part: str) -> Any:
    """The size of a head; None if the settings are no numbers."""
    if (given := settings.get(f"model.{part}.head_dim")) is not None:
        return given
    size, heads = settings[f"model.{part}.hidden_size"], settings[f"model.{part}.heads"]
    return size // heads if type(size) is type(heads) is int and heads > 0 else None


def _check_expressible(settings: Settings) -> None:
    """Refuse a model that ours cannot express.

    Raises:
        CheckpointError: a setting has a value that ours lacks. The message names it.
    """
    architecture = settings.get("model.architecture", "custom")
    if architecture not in ("transformer", "custom"):
        raise settings.refusal("model.architecture", architecture, "an encoder and a decoder that translate")
    for part, without in (("encoder", "a decoder without an encoder"), ("decoder", "an encoder without a decoder")):
        given = settings.get(f"model.{part}")
        if architecture == "custom" and not _mapping(given):
            raise settings.refusal(f"model.{part}", given, without)
    kind = settings.get(_KIND_OF_POSITIONS, _USUAL_POSITIONS)
    if not isinstance(kind, str) or kind not in _KINDS_OF_POSITIONS:
        needs = "no positions" if kind is None else _OTHER_POSITIONS.get(str(kind), "other positions")
        raise settings.refusal(_KIND_OF_POSITIONS, kind, needs)
    for part in _PARTS:
        settings.check({key.replace("PART", part): allowed for key, allowed in _SETTINGS.items()})
        heads, head_size = settings[f"model.{part}.heads"], _head_size(settings, part)
        settings.check({f"model.{part}.heads_kv": ((heads,), "heads that share keys and values")})
        settings.check({f"model.{part}.attn_scaling": ((head_size,), "another scale of attention")})


def _norm_epsilon(settings: Settings, told: Mapping[str, Any], *, has_specials: bool) -> tuple[Any, bool]:
    """The epsilon of norms, and whether the files tell it. Its default changed with Eole 0.2.

    Args:
        has_specials: whether vocab.json names the special pieces, as since Eole 0.0.3.

    Raises:
        CheckpointError: encoder and decoder have different ones.
    """
    if (version := version_of(settings.get("model.eole_version"))) is not None:
        is_old, is_told = version.startswith(("0.0.", "0.1.")), True
    else:
        is_old = not has_specials
        is_told = is_old or "decoder.with_cross_attn" in told  # which is written since Eole 0.5
    unset = [key for part in _PARTS if settings.get(key := f"model.{part}.norm_eps") is None]
    settings.update(dict.fromkeys(unset, _OLD_EPSILON if is_old else _NEW_EPSILON))
    return settings.of_both("norm_eps", "norms with two epsilons"), is_told or not unset


def _model_settings(settings: Settings, tensors: Iterable[str]) -> dict[str, Any]:
    """The settings of our model, but for the epsilon of norms.

    Args:
        tensors: their names, which tell whether attentions have biases.

    Raises:
        CheckpointError: encoder and decoder differ. The message names the setting.
    """
    sizes = (
        "encoder.hidden_size",
        "decoder.hidden_size",
        "embeddings.src_word_vec_size",
        "embeddings.tgt_word_vec_size",
    )
    d_model = settings.equal([f"model.{size}" for size in sizes], "vectors of different sizes")
    heads = settings.of_both("heads", "different numbers of heads")
    head_sizes = {f"head size of {part}": _head_size(settings, part) for part in _PARTS}
    head_size = Settings(head_sizes, settings.name).equal(head_sizes, "heads of different sizes")
    is_usual = type(heads) is type(head_size) is int and heads * head_size == d_model
    return {
        "encoder_layers": settings["model.encoder.layers"],
        "decoder_layers": settings["model.decoder.layers"],
        "d_model": d_model,
        "d_ff": settings.of_both("transformer_ff", "feed-forward networks of different sizes"),
        "heads": heads,
        "d_k": None if is_usual else head_size,
        "d_v": None if is_usual else head_size,
        "norm": "pre",
        "activation": settings.choose("mlp_activation_fn", "relu", _ACTIVATIONS, "two activations"),
        "positions": _KINDS_OF_POSITIONS[settings.get(_KIND_OF_POSITIONS, _USUAL_POSITIONS)],
        "attention_bias": any("_attn." in name and name.endswith(".bias") for name in tensors),
        "output_bias": True,
        "source_eos": False,
    }


def _decoding_config(options: Mapping[str, Any], name: str) -> DecodingConfig:
    """The options of the search. Eole divides scores by length^alpha, or by the paper's penalty.

    Raises:
        CheckpointError: an option is impossible in ours. The message names it.
    """
    penalty = options.get("length_penalty", "avg")
    if penalty not in ("avg", "wu", "none"):
        raise CheckpointError(
            f"{name}: has inference.length_penalty: {shown(penalty)}; nmt has avg, wu and none. Correct it there."
        )
    return valid_settings(
        DecodingConfig,
        f"{name}, inference",
        beam=options.get("beam_size", BEAM_OF_5.beam),
        length_penalty=0 if penalty == "none" else options.get("alpha", 1),
        length_normalization="paper" if penalty == "wu" else "length",
    )


def _pieces(values: Mapping[str, Any], side: str, path: Path) -> list[str]:
    pieces = values.get(side)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise VocabularyError(f"{path}: {side} is not a list of pieces.")
    return pieces


def _special_pieces(values: Mapping[str, Any]) -> dict[str, str]:
    named = _mapping(values.get("specials"))
    return {key: value if isinstance(value := named.get(key), str) else usual for key, usual in _SPECIAL.items()}


def _text_remarks(config: Mapping[str, Any]) -> Iterator[str]:
    """What users must know of the text that the model reads and writes."""
    used = list(dict.fromkeys(_used_transforms(config)))
    others = [name for name in used if name not in _OF_TRAINING | _SEGMENTING]
    if others:
        names = listed(others, _MOST_NAMED)
        yield f"Eole changes text by transforms that nmt does not apply: {names}. Apply them to sources and outputs."
    if "onmt_tokenize" in used:
        yield "Text was segmented by pyonmttok: compare a few lines of yours that it segments."


def _used_transforms(config: Mapping[str, Any]) -> Iterator[str]:
    """The names of all transforms, of the whole and of each corpus."""
    for section in (config, *_mapping(config.get("data")).values()):
        names = _mapping(section).get("transforms")
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and name.isidentifier() and len(name) <= 40:
                yield name


def _named_models(config: Mapping[str, Any], folder: Path) -> tuple[Path | None, Path | None]:
    """The SentencePiece models that transforms name, in this folder: Eole copies them there."""
    transforms = _mapping(config.get("transforms_configs"))
    onmt = _mapping(transforms.get("onmt_tokenize"))
    mode = _mapping(onmt.get("src_onmttok_kwargs")).get("mode", "none")
    segments_alone = onmt.get("src_subword_type") == "sentencepiece" and mode == "none"
    for options in (_mapping(transforms.get("sentencepiece")), onmt if segments_alone else {}):
        if (found := named_subwords(folder, options))[0] is not None:
            return found
    return None, None


def _naming(settings: Settings, tensors: Mapping[str, Array], name: str, *, is_learned: bool) -> Naming:
    """The names of the tensors: of matrices that are one, one name; and no bias that the settings leave out.

    Args:
        name: of the file of tensors, for errors.

    Raises:
        CheckpointError: two matrices differ that must be the same, or positions begin before the first.
    """

    def shared(setting: str, matrix: str, other: str) -> str:
        """A matrix, or the other one that stands for it: Eole stores a shared one once."""
        if settings.get(f"model.{setting}") is not True:
            return matrix
        if matrix in tensors and not (other in tensors and np.array_equal(tensors[matrix], tensors[other])):
            raise CheckpointError(
                f"{name}: {other} and {matrix} differ, but model.{setting} of {settings.name} says that they are one "
                "matrix. Correct it there."
            )
        return other

    target = shared("share_embeddings", _TARGET, _SOURCE)
    output = shared("share_decoder_embeddings", _OUTPUT, target)
    names = {ours: theirs for ours, theirs in _NAMES.items() if _is_stored(theirs, tensors)}
    bias = None if settings.get("model.generator_bias") is False else "generator.bias"
    names |= matrices(_SOURCE, target, output, bias=bias, positions=_LEARNED if is_learned else _TABLES)
    shift = settings.get("model.embeddings.position_shift") or 0
    if is_learned and (type(shift) is not int or shift < 0):
        raise settings.refusal("model.embeddings.position_shift", shift, "positions before the first")
    return Naming(names, first_position=shift if is_learned else 0)


def _is_stored(theirs: str, tensors: Mapping[str, Array]) -> bool:
    """Whether a tensor of a module must be there: all but biases, which a layer has if the first one of its part has.

    The settings do not say it: Eole 0.6 trains encoders without a bias that the settings it writes promise.
    """
    return not theirs.endswith(".bias") or "norm" in theirs or theirs.format(n=0) in tensors
