"""Reading a model of JoeyNMT: its folder with config.yaml, a checkpoint (``.ckpt``) and two vocabularies."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nmt.convert.completing import completed, files_by_name
from nmt.convert.foreign import ForeignModel, ForeignVocabulary, LayerModules, Layout
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.joeynmt.settings import TABLES, check_text, decoding_config, model_config, part_settings, with_part
from nmt.convert.messages import shown
from nmt.convert.segmenters import find_segmenters, segmented_vocabulary
from nmt.convert.sentencepiece_file import with_used_pieces
from nmt.convert.settings import (
    check_settings,
    language_code,
    only_file,
    plain_settings,
    read_yaml_settings,
    version_of,
)
from nmt.convert.tensors import check_layer_counts, read_tensors
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError, VocabularyError

_CONFIG = "config.yaml"
_VOCABULARIES = ("src_vocab.txt", "trg_vocab.txt")
_CHECKPOINTS = ("best.ckpt", "avg_best.ckpt", "latest.ckpt")
_SPECIAL = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
"""The pieces that every vocabulary begins with, in this order; settings may give them other names."""
_LAYERS = LayerModules(
    layers={"encoder": "encoder.layers.{layer}", "decoder": "decoder.layers.{layer}"},
    attentions={
        "encoder": {"self_attention": ("src_src_att", "layer_norm")},
        "decoder": {
            "self_attention": ("trg_trg_att", "x_layer_norm"),
            "cross_attention": ("src_trg_att", "dec_layer_norm"),
        },
    },
    projections=("q_layer", "k_layer", "v_layer", "output_layer"),
    feed_forward=("feed_forward.pwff_layer.0", "feed_forward.pwff_layer.3", "feed_forward.layer_norm"),
)


def is_joeynmt(path: Path) -> bool:
    """Whether a path looks like a model of JoeyNMT: a folder with its vocabularies, or a checkpoint within."""
    folder = path if path.is_dir() else path.parent
    is_checkpoint = path.suffix == ".ckpt" if path.is_file() else any(path.glob("*.ckpt"))
    return is_checkpoint and (folder / _CONFIG).is_file() and (folder / _VOCABULARIES[0]).is_file()


def read_joeynmt(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a model of JoeyNMT.

    Args:
        path: its folder, or a checkpoint in it.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    weights = only_file(path, _CHECKPOINTS, "*.ckpt", "the checkpoint") if path.is_dir() else path
    folder, name = weights.parent, str(weights)
    settings = read_yaml_settings(folder / _CONFIG)
    model_part, data = _part(settings, "model"), _part(settings, "data")
    file = read_torch_file(weights)
    tensors = read_tensors(file, file.value.get("model_state") if isinstance(file.value, Mapping) else None)
    config = model_config(model_part, tensors, str(folder / _CONFIG))
    check_layer_counts(tensors, [config.encoder_layers, config.decoder_layers], name)
    sides = [_side(data, side) for side in ("src", "trg")]
    named = [language_code(side.get("lang")) for side in sides]
    languages = [given.source_lang or named[0], given.target_lang or named[1]]
    named_models = _named_model(folder, sides[0]), _named_model(folder, sides[1])
    segmenters = find_segmenters(folder, given, *languages, named=named_models)
    special = _special(data, str(folder / _CONFIG))
    vocabularies = [folder / file_name for file_name in _VOCABULARIES]
    for side, segmenter in zip(sides, segmenters, strict=True):
        check_text(side, str(folder / _CONFIG), is_segmented_here=segmenter is not None)
    source, target = (
        _read_vocabulary(vocabulary, segmenter, special)
        for vocabulary, segmenter in zip(vocabularies, segmenters, strict=True)
    )
    layout = _layout()
    model = ForeignModel(
        toolkit="JoeyNMT",
        version=version_of(settings.get("joeynmt_version")),
        config=config,
        decoding=decoding_config(_part(settings, "testing")),
        tensors=tensors,
        layout=layout,
        source=source,
        target=target,
        start=special["bos_token"],
        files=files_by_name([weights, folder / _CONFIG, *vocabularies, *segmenters]),
        source_lang=languages[0],
        target_lang=languages[1],
        settings={part: plain_settings(part_settings(model_part, part)) for part in ("encoder", "decoder")},
        ignored=layout.position_tables,
    )
    return completed(model, name)


def _part(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    part = settings.get(key)
    return part if isinstance(part, dict) else {}


def _side(data: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The settings of source or target text. In JoeyNMT 1, both share them, and a side is only the language's code."""
    values = data.get(side)
    return with_part(values if isinstance(values, dict) else {**data, "lang": values}, "tokenizer_cfg")


def _named_model(folder: Path, side: Mapping[str, Any]) -> Path | None:
    """The SentencePiece model that settings name, in this folder: JoeyNMT copies it there."""
    named = side.get("tokenizer_cfg.model_file")
    kind = side.get("tokenizer_type", side.get("bpe_type", "sentencepiece"))
    if side.get("level") != "bpe" or kind != "sentencepiece" or not isinstance(named, str):
        return None
    path = folder / Path(named).name
    return path if path.is_file() else None


def _special(data: Mapping[str, Any], name: str) -> dict[str, str]:
    symbols = _part(data, "special_symbols")
    ids = {f"{key.removesuffix('_token')}_id": (index,) for index, key in enumerate(_SPECIAL)}
    check_settings(symbols, ids, {}, f"{name}, data.special_symbols")
    for key in ("sep_token", "lang_tags"):
        if symbols.get(key):
            raise CheckpointError(
                f"{name}: has data.special_symbols.{key}: {shown(symbols[key])}, which nmt does not have. It would "
                "need prompts before sentences."
            )
    return {key: value if isinstance(value := symbols.get(key), str) else usual for key, usual in _SPECIAL.items()}


def _read_vocabulary(path: Path, segmenter: Path | None, special: Mapping[str, str]) -> ForeignVocabulary:
    try:
        listed = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise VocabularyError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise VocabularyError(f"{path}: is not UTF-8 text.") from None
    vocabulary = segmented_vocabulary(
        list(dict.fromkeys([*special.values(), *listed])),
        segmenter,
        str(path),
        unk=special["unk_token"],
        eos=special["eos_token"],
        pad=special["pad_token"],
    )
    return replace(vocabulary, segmenter=_restricted(vocabulary.segmenter, vocabulary.pieces))


def _restricted(segmenter: bytes | None, known: Collection[str]) -> bytes | None:
    """The SentencePiece model as JoeyNMT sets it up (``SetVocabulary``).

    A piece of several characters that the vocabulary lacks is not used, so its text is split further.
    """
    if segmenter is None:
        return None
    kept = frozenset(known)
    return with_used_pieces(segmenter, lambda piece: len(piece) == 1 or piece in kept)


def _layout() -> Layout:
    return Layout(
        _LAYERS.linears(),
        _LAYERS.norms(),
        source_embedding="src_embed.lut.weight",
        target_embedding="trg_embed.lut.weight",
        output="decoder.output_layer.weight",
        output_bias=None,
        position_tables=TABLES,
    )
