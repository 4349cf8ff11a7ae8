"""Reading a model of JoeyNMT: its folder with config.yaml, a checkpoint (``.ckpt``) and two vocabularies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from nmt.config import DecodingConfig
from nmt.convert.files import has_files, named_in, read_text, shown
from nmt.convert.foreign import COMPOSED, ForeignModel, ForeignVocabulary, Given, Naming, matrices, torch_names
from nmt.convert.segmenters import find_segmenters, read_codes, segmented_vocabularies
from nmt.convert.sentencepiece_file import with_used_pieces
from nmt.convert.settings import (
    Settings,
    Table,
    expressible,
    flat,
    only_file,
    read_yaml_settings,
    unknown_remarks,
    version_of,
)
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model, read_tensors
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError
from nmt.text.steps import (
    Lowercase,
    MosesPunctuation,
    MosesTokenize,
    Nfkc,
    Replace,
    Replacement,
    Spaces,
    Step,
    Steps,
    TextSteps,
)

NORM_EPSILON = 1e-6
_CONFIG = "config.yaml"
_VOCABULARIES = ("src_vocab.txt", "trg_vocab.txt")
_CHECKPOINTS = ("best.ckpt", "avg_best.ckpt", "latest.ckpt")
_PARTS = ("encoder", "decoder")
_SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
"""The pieces that every vocabulary begins with, in this order; settings may give them other names."""
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
_SETTINGS = expressible("JoeyNMT layers")
_DEFAULTS = {"activation": "relu", "embeddings.scale": False}
_TEXT = expressible("JoeyNMT text")
_LOWERED_PIECES: Table = {"lowercase": ((False,), "pieces of SentencePiece in lower case")}
_NORMALIZE: Steps = (
    Nfkc(),
    Replace(table=tuple(Replacement(text=mark, by=by) for mark, by in {"’": "'", "“": '"', "”": '"'}.items())),
    Replace(table=(Replacement(text="\u200b", by=""),), in_outputs=True),
    Spaces(drops_others=True, in_outputs=True),
    Replace(table=tuple(Replacement(text=f" {mark}", by=mark) for mark in "?!,.:"), in_outputs=True),
)
"""What ``normalize`` does to text."""
_IDS: Table = {f"{key.removesuffix('_token')}_id": ((index,), "") for index, key in enumerate(_SPECIAL)}
_PROMPTS: Table = {key: ((None, "", [], {}, False), "prompts before sentences") for key in ("sep_token", "lang_tags")}
_PROJECTIONS = ("q_layer", "k_layer", "v_layer", "output_layer")
_FEED_FORWARD = {
    "feed_forward.inner": "feed_forward.pwff_layer.0",
    "feed_forward.output": "feed_forward.pwff_layer.3",
    "feed_forward_norm": "feed_forward.layer_norm",
}
_ENCODER = {"self_attention": "src_src_att", "self_attention_norm": "layer_norm", **_FEED_FORWARD}
_DECODER = {
    "self_attention": "trg_trg_att",
    "self_attention_norm": "x_layer_norm",
    "cross_attention": "src_trg_att",
    "cross_attention_norm": "dec_layer_norm",
    **_FEED_FORWARD,
}
_NAMING = Naming(
    torch_names(("encoder.layers.{n}", "decoder.layers.{n}"), _ENCODER, _DECODER, _PROJECTIONS)
    | matrices(
        "src_embed.lut.weight",
        "trg_embed.lut.weight",
        "decoder.output_layer.weight",
        positions=("encoder.pe.pe", "decoder.pe.pe"),
    )
)
_FINAL_NORMS = ("encoder.layer_norm.weight", "decoder.layer_norm.weight")


def is_joeynmt(path: Path) -> bool:
    """Whether a path looks like a model of JoeyNMT: a folder with its vocabularies, or a checkpoint within."""
    return has_files(path, "*.ckpt", _CONFIG, _VOCABULARIES[0])


def read_joeynmt(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a model of JoeyNMT.

    Args:
        path: its folder, or a checkpoint in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, _CHECKPOINTS, "*.ckpt", "the checkpoint") if path.is_dir() else path
    folder, config = weights.parent, str(weights.parent / _CONFIG)
    settings = read_yaml_settings(folder / _CONFIG)
    data = _part(settings, "data")
    of_model = Settings(flat(_part(settings, "model"), 2), f"{config}, model", "encoder.{}", "decoder.{}")
    values = read_torch_file(weights)
    tensors = read_tensors(weights, values.get("model_state") if isinstance(values, Mapping) else None)
    ours = _model_settings(of_model, has_final_norms=all(norm in tensors for norm in _FINAL_NORMS))
    sides = [_side(data, side) for side in ("src", "trg")]
    languages = given.languages(*(side.get("lang") for side in sides))
    named_models = _named_model(folder, sides[0]), _named_model(folder, sides[1])
    segmenters = find_segmenters(folder, given, languages, named=named_models)
    codes = _named_codes(folder, sides[0]), _named_codes(folder, sides[1])
    for side, segmenter in zip(sides, segmenters, strict=True):
        is_lowered_later = side["is_shared"] and segmenter is not None
        Settings(side, config).check({**_TEXT, **(_LOWERED_PIECES if is_lowered_later else {})})
    special = _special(data, config)
    vocabularies = [folder / file_name for file_name in _VOCABULARIES]
    source, target = segmented_vocabularies(
        (list(dict.fromkeys([*special.values(), *read_text(vocabulary).splitlines()])) for vocabulary in vocabularies),
        segmenters,
        vocabularies,
        special,
        codes=map(read_codes, codes),
    )
    return foreign_model(
        str(weights),
        ours,
        toolkit="JoeyNMT",
        version=version_of(settings.get("joeynmt_version")),
        decoding=decoding_config(_part(settings, "testing")),
        tensors=tensors,
        naming=_NAMING,
        source=_restricted(source),
        target=_restricted(target),
        start=special["bos_token"],
        powers=NO_POWERS if of_model.get("encoder.embeddings.scale") else UNSCALED,
        files=[weights, folder / _CONFIG, *vocabularies, *segmenters, *codes],
        text=TextSteps(_steps(sides[0], source, languages[0]), _steps(sides[1], target, languages[1])),
        languages=languages,
        settings=of_model,
        remarks=unknown_remarks(of_model, _SETTINGS, "JoeyNMT"),
    )


def _part(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    part = settings.get(key)
    return part if isinstance(part, dict) else {}


def _model_settings(settings: Settings, *, has_final_norms: bool) -> dict[str, Any]:
    """The settings of our model.

    Args:
        settings: those of encoder and decoder, flat: ``encoder.embeddings.scale``.

    Raises:
        CheckpointError: our model cannot express a setting. The message names it.
    """
    for part in _PARTS:
        settings.check({f"{part}.{key}": allowed for key, allowed in _SETTINGS.items()})
        for key, value in _DEFAULTS.items():
            settings[f"{part}.{key}"] = settings.get(f"{part}.{key}") or value
    settings.of_both("embeddings.scale", "embeddings of which only some are multiplied by sqrt(d_model)")
    sizes = tuple(f"{part}.{key}" for part in _PARTS for key in ("hidden_size", "embeddings.embedding_dim"))
    return {
        "encoder_layers": settings.get("encoder.num_layers"),
        "decoder_layers": settings.get("decoder.num_layers"),
        "d_model": settings.equal(sizes, "embeddings of another size than the layers"),
        "d_ff": settings.of_both("ff_size", "feed-forward networks of different sizes"),
        "heads": settings.of_both("num_heads", "different numbers of heads"),
        "norm": _norm(settings, has_final_norms),
        "norm_epsilon": NORM_EPSILON,
        "activation": settings.choose("activation", "relu", _ACTIVATIONS, "two kinds of activation"),
        "positions": "sinusoidal",
    }


def _norm(settings: Settings, has_final_norms: bool) -> Literal["pre", "post"]:
    """Where layers are normalised. JoeyNMT 1 has no setting for it: always before, and once at the end."""
    given = {part: settings.get(f"{part}.layer_norm") for part in _PARTS}
    places = list(given.values())
    if places == ["pre", "pre"] or (places == [None, None] and has_final_norms):
        return "pre"
    if places == ["post", "post"]:
        return "post"
    listed = ", ".join(f"{part}.layer_norm: {shown(value)}" for part, value in given.items())
    raise CheckpointError(
        f"{settings.name}: has {listed}, which nmt does not have: it has pre and post, in encoder and decoder alike. "
        "Without a setting, JoeyNMT 2 normalises before the encoder's layers and after the decoder's."
    )


def decoding_config(settings: Mapping[str, Any]) -> DecodingConfig:
    """The settings of the search: the length penalty is the paper's, and off by default."""
    beam, alpha = settings.get("beam_size"), settings.get("beam_alpha", settings.get("alpha"))
    return DecodingConfig(
        beam=beam if isinstance(beam, int) and 1 <= beam <= 1_000 else 1,
        length_penalty=float(alpha) if isinstance(alpha, int | float) and 0 <= alpha <= 100 else 0.0,
    )


def _side(data: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The settings of source or target text. In JoeyNMT 1, both share them, and a side is only the language's code."""
    values = data.get(side)
    own = flat(values if isinstance(values, dict) else {**data, "lang": values})
    pretokenizer = own.get("tokenizer_cfg.pretokenizer")
    lowered = pretokenizer.lower() if isinstance(pretokenizer, str) else pretokenizer
    return {**own, "tokenizer_cfg.pretokenizer": lowered, "is_shared": not isinstance(values, dict)}


def _named_model(folder: Path, side: Mapping[str, Any]) -> Path | None:
    """The SentencePiece model that settings name, in this folder: JoeyNMT copies it there."""
    return named_in(folder, side.get("tokenizer_cfg.model_file")) if _subwords(side) == "sentencepiece" else None


def _named_codes(folder: Path, side: Mapping[str, Any]) -> Path | None:
    """The codes of subword-nmt that settings name, likewise."""
    return named_in(folder, side.get("tokenizer_cfg.codes")) if _subwords(side) == "subword-nmt" else None


def _subwords(side: Mapping[str, Any]) -> Any:
    """What splits the words of a side; None if nothing does."""
    kind = side.get("tokenizer_type", side.get("bpe_type", "sentencepiece"))
    return kind if side.get("level") == "bpe" else None


def _steps(side: Mapping[str, Any], vocabulary: ForeignVocabulary, language: str) -> Steps:
    """What text goes through before it is segmented. Text that comes as pieces only becomes lower case."""
    steps: list[Step] = [*COMPOSED.source]
    is_text = vocabulary.segmenter is not None or vocabulary.codes is not None or side.get("level") == "word"
    normalizes, is_moses = side.get("normalize"), side.get("tokenizer_cfg.pretokenizer") == "moses"
    if is_text and normalizes:
        steps += [*_NORMALIZE, *([MosesPunctuation(language="en", removes_control=False)] if is_moses else [])]
    if is_text and is_moses:
        steps.append(MosesTokenize(language=language))
    return (*steps, *([Lowercase()] if side.get("lowercase") else []))


def _special(data: Mapping[str, Any], name: str) -> dict[str, str]:
    symbols = _part(data, "special_symbols")
    Settings(symbols, f"{name}, data.special_symbols").check({**_IDS, **_PROMPTS})
    return {key: value if isinstance(value := symbols.get(key), str) else usual for key, usual in _SPECIAL.items()}


def _restricted(vocabulary: ForeignVocabulary) -> ForeignVocabulary:
    """The vocabulary with the SentencePiece model or the codes as JoeyNMT sets them up (``SetVocabulary``).

    A piece of several characters that the vocabulary lacks is not used, so its text is split further.
    """
    if vocabulary.segmenter is None:
        return replace(vocabulary, is_restricted=vocabulary.codes is not None)
    kept = frozenset(vocabulary.pieces)
    used = with_used_pieces(vocabulary.segmenter, lambda piece: len(piece) == 1 or piece in kept)
    return replace(vocabulary, segmenter=used)
