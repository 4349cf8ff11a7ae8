"""Reading a model of Eole: its folder with config.json, vocab.json and ``model.NN.safetensors``.

config.json holds only what a user set, so Eole's defaults are here. The encoder, the decoder and the embeddings take
over what ``model`` sets and they do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.files import listed, named_in, read_mapping, shown
from nmt.convert.foreign import (
    BEAM_OF_5,
    NOTHING_GIVEN,
    POSITIONS,
    Array,
    ForeignModel,
    ForeignVocabulary,
    Given,
    Naming,
    matrices,
    torch_names,
)
from nmt.convert.segmenters import find_segmenters, segmented_vocabulary, start_piece
from nmt.convert.settings import (
    Table,
    check_equal,
    check_settings,
    choose,
    plain_settings,
    unknown_remarks,
    valid_settings,
    version_of,
)
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model, read_safetensors
from nmt.errors import CheckpointError, VocabularyError

_CONFIG, _VOCABULARY, _SHARDS = "config.json", "vocab.json", "model.*.safetensors"
_PARTS, _EMBEDDINGS = ("encoder", "decoder"), "embeddings"
_DEFAULTS = {"layers": 2, "hidden_size": 512, "heads": 8, "transformer_ff": 2048, "mlp_activation_fn": "relu"}
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
_OTHER_POSITIONS = {"Rotary": "rotary positions", "Relative": "relative positions", "Alibi": "ALiBi"}
_ARCHITECTURES = {
    "transformer_lm": "a decoder without an encoder",
    "transformer_encoder": "an encoder without a decoder",
    "transformer_encoder_scorer": "an encoder that scores translations",
    "transformer_encoder_decoder_scorer": "a decoder that scores translations",
    "rnn": "recurrent layers",
    "cnn": "convolutions",
    "vision_transformer_lm": "an encoder of pictures",
    "whisper": "an encoder of speech",
}
_IN_MODEL: Table = {
    "generator_function": (("softmax",), "another softmax"),
    "add_estimator": ((False,), "an estimator of quality"),
    "left_pad": ((False,), "padding before the source"),
}
_IN_EMBEDDINGS: Table = {
    "embedding_type": (("standard",), "the embeddings of RoBERTa"),
    "embedding_layer_norm": ((False,), "a norm of the embeddings"),
}
_IN_PARTS: Table = {
    "encoder_type": (("transformer",), "another encoder"),
    "decoder_type": (("transformer",), "another decoder"),
    "mlp_activation_fn": (
        tuple(_ACTIVATIONS),
        "a gated feed-forward network (gated-…), or another activation",
    ),
    "layer_norm": (("standard", "standardFP32"), "RMSNorm"),
    "shared_layer_norm": ((False,), "sub-layers that share a norm"),
    "parallel_residual": ((False,), "sub-layers side by side"),
    "ffn_layernorm": ((False,), "norms on both sides of the feed-forward network"),
    "encoder_layer_style": (("standard",), "a post-norm encoder beside a pre-norm decoder"),
    "final_encoder_layer_norm": ((True,), "a pre-norm encoder without its final norm"),
    "max_relative_positions": ((0,), "relative positions (rotary if -1, ALiBi if -2)"),
    "relative_positions_buckets": ((0,), "relative positions"),
    "sliding_window": ((0,), "attention to a window, which Eole counts otherwise in training than in decoding"),
    "num_experts": ((0,), "layers with experts"),
    "query_norm": ((False,), "norms of queries"),
    "key_norm": ((False,), "norms of keys"),
    "value_norm": ((False,), "norms of values"),
    "q_gating": ((False,), "gated queries"),
    "interpolate_mode": ((None,), "positions of pictures"),
    "layer_types": ((None,), "layers of several kinds"),
    "global_head_dim": ((None,), "layers of several kinds"),
    "global_heads_kv": ((None,), "layers of several kinds"),
    "LM_type": (("causal",), "a decoder that reads a prefix in both directions"),
    "coverage_attn": ((False,), "attention that sums up earlier attention"),
    "num_mtp_heads": ((0,), "several output layers"),
}
_IN_TRAINING: Table = {
    "quant_type": (("",), "quantised layers: take the model that it was made from"),
    "lora_layers": (([],), "adapters: merge them into the model first"),
    "lora_embedding": ((False,), "adapters: merge them into the model first"),
}
_SPECIAL = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}
_OF_TRAINING = frozenset(
    ("filtertooshort", "filtertoolong", "clean", "switchout", "tokendrop", "tokenmask", "bart", "fuzzymatch")
)
"""Transforms that choose or spoil sentences of training."""
_SEGMENTING = frozenset(("sentencepiece", "bpe", "onmt_tokenize"))
_MOST_NAMED = 5
_SCALAR = re.compile(r"decoder\.transformer_layers\.\d+\.layer_scalar")
"""A factor that only layers with norms around the feed-forward network apply."""
_BIASES: dict[str, tuple[str, ...]] = {
    "linear_query": ("add_qkvbias",),
    "linear_keys": ("add_key_bias", "add_qkvbias"),
    "linear_values": ("add_qkvbias",),
    "final_linear": ("add_final_linear_bias", "add_qkvbias"),
    "gate_up_proj": ("add_ffnbias",),
    "down_proj": ("add_ffnbias",),
}
"""Projection -> the setting that tells whether it has a bias, and the one that does where that is not set."""
_UNSURE = "final_linear"
"""A projection that has no bias in some files whose settings say that it has one: Eole sets it after it is built."""
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
    """Whether a path looks like a model of Eole: its folder, or config.json or a file of tensors within."""
    folder = path if path.is_dir() else path.parent
    is_part = path.is_dir() or path.name == _CONFIG or path.match(_SHARDS)
    return is_part and (folder / _CONFIG).is_file() and (folder / _VOCABULARY).is_file() and any(folder.glob(_SHARDS))


def read_eole(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of Eole, of any version to 0.6.

    Args:
        path: its folder, or a file in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    folder = path if path.is_dir() else path.parent
    values = read_mapping(folder / _CONFIG)
    settings = _Settings.of(values, str(folder / _CONFIG))
    _check_expressible(settings)
    vocabulary = read_mapping(folder / _VOCABULARY)
    has_specials = isinstance(vocabulary.get("specials"), dict)  # as since Eole 0.0.3
    shards = sorted(folder.glob(_SHARDS))
    tensors, name = read_safetensors(shards), str(shards[0] if len(shards) == 1 else folder)
    scalars = [*filter(_SCALAR.fullmatch, tensors)]
    epsilon, is_told = _norm_epsilon(settings, has_specials=has_specials, has_scalars=bool(scalars))
    ours = _model_settings(settings) | {"norm_epsilon": epsilon}
    is_learned, is_normalized = ours["positions"] == "learned", bool(settings.get(_EMBEDDINGS, "normalize"))
    if is_normalized and not is_learned:
        needs = "sinusoids that are multiplied by sqrt(hidden_size)"
        raise settings.refused(f"model.{_EMBEDDINGS}.normalize", True, needs)
    if not is_learned and not has_specials and not any(table in tensors for table in _TABLES):
        # Eole 0.0.1 has sinusoids only where they are asked for.
        raise settings.refused(f"model.{_EMBEDDINGS}.position_encoding", False, "no positions")
    segmenters = find_segmenters(folder, given, given.languages(), named=_named_models(values, folder))
    source, target = (
        _vocabulary(vocabulary, side, segmenter, folder / _VOCABULARY)
        for side, segmenter in zip(("src", "tgt"), segmenters, strict=True)
    )
    start = vocabulary.get("decoder_start_token", _special_pieces(vocabulary)["bos_token"])
    return foreign_model(
        name,
        ours,
        toolkit="Eole",
        version=settings.version,
        decoding=_decoding_config(settings),
        tensors=tensors,
        naming=_naming(settings, tensors, name, is_learned=is_learned),
        source=source,
        target=target,
        start=start_piece(start, target, str(folder / _VOCABULARY)),
        # Beside learned positions, Eole does not multiply embeddings by sqrt(hidden_size), or multiplies both.
        powers=dict.fromkeys(POSITIONS, 1) if is_normalized else UNSCALED if is_learned else NO_POWERS,
        files=[folder / _CONFIG, folder / _VOCABULARY, *shards, *segmenters],
        languages=given.languages(),
        settings=plain_settings(settings.flat()),
        ignored=scalars,
        remarks=[
            *([] if is_told else [_UNTOLD_EPSILON]),
            *_text_remarks(values),
            *unknown_remarks(settings.flat(), {**_IN_MODEL, **_IN_EMBEDDINGS, **_IN_PARTS}, "Eole"),
        ],
    )


@dataclass(frozen=True)
class _Settings:
    """The settings of config.json that tell of the model."""

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    inference: Mapping[str, Any]
    name: str
    """Of the file, for errors."""

    @classmethod
    def of(cls, values: Mapping[str, Any], name: str) -> _Settings:
        """The settings of a config.json.

        Raises:
            CheckpointError: it has no model.
        """
        if not isinstance(values.get("model"), dict):
            raise CheckpointError(f"{name}: has no settings of a model: is it a model of Eole?")
        model, training, inference = (_mapping(values.get(key)) for key in ("model", "training", "inference"))
        return cls(model, training, inference, name)

    def section(self, section: str) -> Mapping[str, Any]:
        """``encoder``, ``decoder`` or ``embeddings`` of the model."""
        return _mapping(self.model.get(section))

    def get(self, section: str, key: str) -> Any:
        """A setting of ``encoder``, ``decoder`` or ``embeddings``: its own, the model's, or the default."""
        if key in self.section(section):
            return self.section(section)[key]
        value = self.model.get(key)
        is_unset = value is None or (key in _UNSET_IF_NEGATIVE and isinstance(value, int) and value < 0)
        return _DEFAULTS.get(key) if is_unset else value

    def common(self, key: str, needs: str) -> Any:
        """A setting that must be the same in encoder and decoder.

        Raises:
            CheckpointError: it is not. The message names both.
        """
        return self.equal({f"model.{part}.{key}": self.get(part, key) for part in _PARTS}, needs)

    def equal(self, given: Mapping[str, Any], needs: str) -> Any:
        """The value that several settings share.

        Raises:
            CheckpointError: they differ. The message names them.
        """
        return check_equal(given, tuple(given), needs, self.name)

    def head_size(self, part: str) -> Any:
        """The size of a head; None if the settings are no numbers."""
        if (given := self.get(part, "head_dim")) is not None:
            return given
        size, heads = self.get(part, "hidden_size"), self.get(part, "heads")
        return size // heads if type(size) is type(heads) is int and heads > 0 else None

    def has_bias(self, part: str, projection: str) -> bool:
        """Whether a projection of a layer has a bias."""
        found = (self.get(part, key) for key in _BIASES[projection])
        return bool(next((value for value in found if value is not None), False))

    @property
    def position_kind(self) -> Any:
        """``position_encoding_type``; None if there are no positions."""
        key = "position_encoding_type"
        has_it = key in self.section(_EMBEDDINGS) or key in self.model
        return self.get(_EMBEDDINGS, key) if has_it else "SinusoidalInterleaved"

    @property
    def version(self) -> str | None:
        """The version that wrote the files, which they seldom tell."""
        return version_of(self.model.get("eole_version"))

    def flat(self) -> dict[str, Any]:
        """The settings of the model under names such as ``encoder.heads``."""
        sections = (*_PARTS, _EMBEDDINGS)
        flat = {key: value for key, value in self.model.items() if key not in sections or not isinstance(value, dict)}
        return flat | {f"{name}.{key}": value for name in sections for key, value in self.section(name).items()}

    def refused(self, key: str, value: object, needs: str) -> CheckpointError:
        """The error of a setting that ours cannot express."""
        return CheckpointError(
            f"{self.name}: has {key}: {shown(value)}, which nmt does not have. It would need {needs}."
        )


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _check_expressible(settings: _Settings) -> None:
    """Refuse a model that ours cannot express.

    Raises:
        CheckpointError: a setting has a value that ours lacks. The message names it.
    """
    architecture = settings.model.get("architecture", "custom")
    if architecture not in ("transformer", "custom"):
        needs = _ARCHITECTURES.get(str(architecture), "another architecture")
        raise settings.refused("model.architecture", architecture, needs)
    for part, without in (("encoder", "a decoder without an encoder"), ("decoder", "an encoder without a decoder")):
        if architecture == "custom" and not settings.section(part):
            raise settings.refused(f"model.{part}", settings.model.get(part), without)
    kind = settings.position_kind
    if not isinstance(kind, str) or kind not in _KINDS_OF_POSITIONS:
        needs = "no positions" if kind is None else _OTHER_POSITIONS.get(str(kind), "other positions")
        raise settings.refused("model.embeddings.position_encoding_type", kind, needs)
    sections: list[tuple[str, Mapping[str, Any], Table]] = [
        ("model", settings.model, _IN_MODEL),
        (f"model.{_EMBEDDINGS}", settings.section(_EMBEDDINGS), _IN_EMBEDDINGS),
        ("training", settings.training, _IN_TRAINING),
    ]
    for part in _PARTS:
        of_heads: Table = {
            "heads_kv": ((settings.get(part, "heads"),), "heads that share keys and values"),
            "attn_scaling": ((settings.head_size(part),), "another scale of attention"),
        }
        in_part: Table = {**_IN_PARTS, **of_heads}
        sections.append((f"model.{part}", {key: settings.get(part, key) for key in in_part}, in_part))
    for section, values, table in sections:
        named = {f"{section}.{key}": value for key, value in values.items()}
        check_settings(named, {f"{section}.{key}": allowed for key, allowed in table.items()}, settings.name)


def _norm_epsilon(settings: _Settings, *, has_specials: bool, has_scalars: bool) -> tuple[Any, bool]:
    """The epsilon of norms, and whether the files tell it. Its default changed with Eole 0.2.

    Args:
        has_specials: whether vocab.json names the special pieces, as since Eole 0.0.3.
        has_scalars: whether layers of the decoder have a ``layer_scalar``, as since Eole 0.6.

    Raises:
        CheckpointError: encoder and decoder have different ones.
    """
    if settings.version is not None:
        is_old, is_told = settings.version.startswith(("0.0.", "0.1.")), True
    else:
        is_old = not has_specials
        # with_cross_attn is written since Eole 0.5.
        is_told = is_old or has_scalars or "with_cross_attn" in settings.section("decoder")
    default = _OLD_EPSILON if is_old else _NEW_EPSILON
    given = {f"model.{part}.norm_eps": settings.get(part, "norm_eps") for part in _PARTS}
    told = {key: default if value is None else value for key, value in given.items()}
    return settings.equal(told, "norms with two epsilons"), is_told or None not in given.values()


def _model_settings(settings: _Settings) -> dict[str, Any]:
    """The settings of our model, but for the epsilon of norms.

    Raises:
        CheckpointError: encoder and decoder differ. The message names the setting.
    """
    sizes = {f"model.{part}.hidden_size": settings.get(part, "hidden_size") for part in _PARTS}
    for key in ("src_word_vec_size", "tgt_word_vec_size"):
        sizes[f"model.{_EMBEDDINGS}.{key}"] = settings.get(_EMBEDDINGS, key)
    d_model = settings.equal(sizes, "vectors of different sizes")
    heads = settings.common("heads", "different numbers of heads")
    head_sizes = {f"head size of {part}": settings.head_size(part) for part in _PARTS}
    head_size = settings.equal(head_sizes, "heads of different sizes")
    is_usual = type(heads) is type(head_size) is int and heads * head_size == d_model
    activation = {"mlp_activation_fn": settings.common("mlp_activation_fn", "two activations")}
    return {
        "encoder_layers": settings.get("encoder", "layers"),
        "decoder_layers": settings.get("decoder", "layers"),
        "d_model": d_model,
        "d_ff": settings.common("transformer_ff", "feed-forward networks of different sizes"),
        "heads": heads,
        "d_k": None if is_usual else head_size,
        "d_v": None if is_usual else head_size,
        "norm": "pre",
        "activation": choose(activation, "mlp_activation_fn", "relu", _ACTIVATIONS, settings.name),
        "positions": _KINDS_OF_POSITIONS[settings.position_kind],
        "attention_bias": any(settings.has_bias(part, projection) for part in _PARTS for projection in _PROJECTIONS),
        "output_bias": True,
        "source_eos": False,
    }


def _decoding_config(settings: _Settings) -> DecodingConfig:
    """The options of the search. Eole divides scores by length^alpha, or by the paper's penalty.

    Raises:
        CheckpointError: an option is impossible in ours. The message names it.
    """
    given = settings.inference
    penalty = given.get("length_penalty", "avg")
    if penalty not in ("avg", "wu", "none"):
        raise CheckpointError(
            f"{settings.name}: has inference.length_penalty: {shown(penalty)}; nmt has avg, wu and none. Correct it "
            "there."
        )
    return valid_settings(
        DecodingConfig,
        f"{settings.name}, inference",
        beam=given.get("beam_size", BEAM_OF_5.beam),
        length_penalty=0 if penalty == "none" else given.get("alpha", 1),
        normalization="paper" if penalty == "wu" else "length",
    )


def _vocabulary(values: Mapping[str, Any], side: str, segmenter: Path | None, path: Path) -> ForeignVocabulary:
    """The vocabulary of one side. That of source text needs no end: Eole encodes sources without it.

    Raises:
        VocabularyError: pieces are missing or double, or the SentencePiece model is damaged or missing.
    """
    pieces = values.get(side)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise VocabularyError(f"{path}: {side} is not a list of pieces.")
    special = _special_pieces(values)
    return segmented_vocabulary(
        pieces,
        segmenter,
        f"{path}, {side}",
        unk=special["unk_token"],
        eos=special["eos_token"],
        pad=special["pad_token"] if special["pad_token"] in pieces else None,
        needs_eos=side == "tgt",
    )


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
        source, target = (named_in(folder, options.get(f"{side}_subword_model")) for side in ("src", "tgt"))
        if source is not None:
            return source, target or source
    return None, None


def _naming(settings: _Settings, tensors: Mapping[str, Array], name: str, *, is_learned: bool) -> Naming:
    """The names of the tensors: of matrices that are one, one name; and no bias that the settings leave out.

    Raises:
        CheckpointError: two matrices differ that must be the same, or positions begin before the first.
    """
    target = _shared(settings, tensors, name, "share_embeddings", _TARGET, _SOURCE)
    output = _shared(settings, tensors, name, "share_decoder_embeddings", _OUTPUT, target)
    names = {ours: theirs for ours, theirs in _NAMES.items() if _is_stored(theirs, settings, tensors)}
    bias = None if settings.model.get("generator_bias") is False else "generator.bias"
    names |= matrices(_SOURCE, target, output, bias=bias, positions=_LEARNED if is_learned else _TABLES)
    shift = settings.get(_EMBEDDINGS, "position_shift") or 0
    if is_learned and (type(shift) is not int or shift < 0):
        raise settings.refused(f"model.{_EMBEDDINGS}.position_shift", shift, "positions before the first")
    return Naming(names, first_position=shift if is_learned else 0)


def _is_stored(theirs: str, settings: _Settings, tensors: Mapping[str, Array]) -> bool:
    """Whether the settings say that a tensor of a module is there: all are but some biases."""
    module, _, end = theirs.rpartition(".")
    projection = module.rpartition(".")[2]
    if end != "bias" or projection not in _BIASES:
        return True
    has_bias = settings.has_bias(theirs.partition(".")[0], projection)
    return has_bias and (projection != _UNSURE or theirs.format(n=0) in tensors)


def _shared(settings: _Settings, tensors: Mapping[str, Array], name: str, setting: str, matrix: str, other: str) -> str:
    """A matrix, or the other one that stands for it: Eole stores a shared one once."""
    if settings.model.get(setting) is not True:
        return matrix
    if matrix in tensors and not (other in tensors and np.array_equal(tensors[matrix], tensors[other])):
        raise CheckpointError(
            f"{name}: {other} and {matrix} differ, but model.{setting} of {settings.name} says that they are one "
            "matrix. Correct it there."
        )
    return other
