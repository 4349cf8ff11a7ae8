"""Reading a MarianMT of Hugging Face transformers: a local folder as save_pretrained writes it, tokenizer included."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt.config import DecodingConfig
from nmt.convert.fairseq import NAMES as FAIRSEQ_NAMES
from nmt.convert.files import optional_mapping, read_mapping, shown
from nmt.convert.foreign import (
    OUTPUT_BIAS,
    TARGET_EMBEDDING,
    Array,
    ForeignModel,
    ForeignVocabulary,
    Given,
    Naming,
    matrices,
)
from nmt.convert.segmenters import pieces_by_id, segmented_vocabularies
from nmt.convert.settings import Settings, Table, flat, unknown_remarks, unused_remarks, valid_settings, version_of
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model, read_safetensors, read_tensors
from nmt.convert.torch_files import read_torch_file
from nmt.errors import CheckpointError, VocabularyError

TOOLKIT = "Hugging Face MarianMT"
CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"
SEGMENTERS = {"source": "source.spm", "target": "target.spm"}
WEIGHTS, _SHARDS, _PICKLED = "model.safetensors", "model-*-of-*.safetensors", "pytorch_model.bin"
NORM_EPSILON = 1e-5
"""MarianMT's layer norms have no setting for it."""
_ACTIVATION = "activation_function"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu", "quick_gelu": "quick_gelu"}
_YES_OR_NO = (True, False)
# Older versions computed with more values than these.
_MODEL: Table = {
    "model_type": (("marian",), "another architecture"),
    "is_encoder_decoder": ((True,), "a decoder without an encoder"),
    "static_position_embeddings": ((True,), "positions that are learned"),
    "normalize_embedding": ((False,), "a norm of the embeddings"),
    "normalize_before": ((False,), "pre-norm without final norms"),
    "add_final_layer_norm": ((False,), "final norms in a post-norm model"),
    "quantization_config": ((None,), "quantised layers: take the model that it was made from"),
    "tie_word_embeddings": (_YES_OR_NO, "true or false"),
    "share_encoder_decoder_embeddings": (_YES_OR_NO, "true or false"),
    "scale_embedding": (_YES_OR_NO, "true or false"),
}
# Options of transformers' search that a bundle does not keep -> the values without effect.
_SEARCH: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
}
_ARCHITECTURE = "MarianMTModel"
_SPECIAL = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}
SHARED = "model.shared.weight"
_MATRICES = (
    SHARED,
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""The matrices of pieces. A file holds those that are one under one name, or under several."""
NAMES = {ours: f"model.{theirs}" for ours, theirs in FAIRSEQ_NAMES.items()} | matrices(
    *_MATRICES[1:],
    bias="final_logits_bias",
    positions=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
)


def is_huggingface(path: Path) -> bool:
    """Whether a path looks like a model of Hugging Face: a folder with config.json and weights."""
    return (path / CONFIG).is_file() and bool(_weight_files(path))


def read_huggingface(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a MarianMT.

    Args:
        path: its folder.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    name = str(path / CONFIG)
    config = Settings(read_mapping(path / CONFIG), name)
    ours = _model_settings(config)
    tokenizer = optional_mapping(path / TOKENIZER)
    special = {key: _token(tokenizer, key, path / TOKENIZER) for key in _SPECIAL}
    vocabularies = [path / VOCAB, path / TARGET_VOCAB] if tokenizer.get("separate_vocabs") is True else [path / VOCAB]
    segmenters = [given.source_spm or path / SEGMENTERS["source"], given.target_spm or path / SEGMENTERS["target"]]
    pieces = [pieces_by_id(read_mapping(file), str(file)) for file in vocabularies]
    source, target = segmented_vocabularies(
        (pieces[0], pieces[-1]), segmenters, (vocabularies[0], vocabularies[-1]), special
    )
    _check_sizes(config, name, {vocabularies[0]: source, vocabularies[-1]: target})
    generation = optional_mapping(path / GENERATION)
    start = _start_id(generation, config, target, path)
    files = _weight_files(path)
    tensors = _read_tensors(files)
    naming = _naming(tensors, config, files[0])
    found = [path / CONFIG, path / GENERATION, *files, *vocabularies, *segmenters, path / TOKENIZER]
    options = generation or config
    return foreign_model(
        str(files[0]),
        ours | {"decoder_start": "zero" if _is_zero(tensors[naming.tensors[TARGET_EMBEDDING]], start) else "bos"},
        toolkit=TOOLKIT,
        version=version_of(config.get("transformers_version")),
        decoding=_decoding(options, name if options is config else str(path / GENERATION)),
        tensors=tensors,
        naming=naming,
        source=source,
        target=target,
        start=target.pieces[start],
        powers=NO_POWERS if config.get("scale_embedding") else UNSCALED,
        files=[file for file in found if file.is_file()],
        languages=given.languages(tokenizer.get("source_lang"), tokenizer.get("target_lang")),
        settings=flat({**config, "generation": generation}),
        ignored=_MATRICES,
        remarks=[
            *unused_remarks(options, _SEARCH, GENERATION if generation else CONFIG, "transformers"),
            *unknown_remarks(config, _MODEL, TOOLKIT),
        ],
    )


def _model_settings(config: Settings) -> dict[str, Any]:
    """The settings of our model.

    Raises:
        CheckpointError: our model cannot express a setting. The message names it.
    """
    config.check(_MODEL)
    architectures = config.get("architectures") or [_ARCHITECTURE]
    if not isinstance(architectures, list) or _ARCHITECTURE not in architectures:
        raise CheckpointError(
            f"{config.name}: has architectures: {shown(architectures)}, which nmt does not have. It imports "
            f"{_ARCHITECTURE}."
        )
    return {
        "encoder_layers": config.get("encoder_layers"),
        "decoder_layers": config.get("decoder_layers"),
        "d_model": config.get("d_model"),
        "d_ff": config.of_both("ffn_dim", "feed-forward networks of different sizes"),
        "heads": config.of_both("attention_heads", "different numbers of heads"),
        "norm_epsilon": NORM_EPSILON,
        "activation": config.choose(_ACTIVATION, "gelu", _ACTIVATIONS),
        "positions": "sinusoidal_halves",
        "max_positions": config.get("max_position_embeddings"),
        "output_bias": True,
    }


def _decoding(options: Mapping[str, Any], name: str) -> DecodingConfig:
    """The options of the search: transformers divides scores by length^length_penalty.

    Raises:
        CheckpointError: an option is impossible in ours, or a first piece is forced.
    """
    told = {key: value for key, value in options.items() if value is not None}
    if (forced := told.get("forced_bos_token_id")) is not None:
        raise CheckpointError(
            f"{name}: has forced_bos_token_id: {shown(forced)}, but nmt forces no first piece. Remove it to import."
        )
    return valid_settings(
        DecodingConfig,
        name,
        beam=told.get("num_beams", 1),
        length_penalty=told.get("length_penalty", 1.0),
        length_normalization="length",
    )


def _token(tokenizer: Mapping[str, Any], key: str, path: Path) -> str:
    """A special piece: a string, or a mapping with its content."""
    value = tokenizer.get(key, _SPECIAL[key])
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, str):
        raise VocabularyError(f"{path}: {key} is not text. Copy the model again.")
    return value


def _check_sizes(config: Mapping[str, Any], name: str, vocabularies: Mapping[Path, ForeignVocabulary]) -> None:
    if len(vocabularies) > 1 and config.get("share_encoder_decoder_embeddings", True):
        raise CheckpointError(
            f"{name}: share_encoder_decoder_embeddings says that both languages have one vocabulary, but there is "
            f"{TARGET_VOCAB}: they belong to different models."
        )
    sizes = config.get("vocab_size"), config.get("decoder_vocab_size") or config.get("vocab_size")
    for (path, vocabulary), size in zip(vocabularies.items(), sizes, strict=False):
        if len(vocabulary.pieces) != size:
            raise CheckpointError(
                f"{path}: has {len(vocabulary.pieces):,} pieces, but {CONFIG} says {shown(size)}. nmt imports models "
                "whose pieces all stand there, without added tokens."
            )


def _start_id(generation: Mapping[str, Any], config: Mapping[str, Any], target: ForeignVocabulary, folder: Path) -> int:
    """The id of the piece that the decoder reads first.

    Raises:
        CheckpointError: the ids of special pieces are missing or contradict each other, or other pieces than those that
            our search never emits are suppressed.
    """
    name, pieces = str(folder / (GENERATION if generation else CONFIG)), target.pieces
    ids = {}
    for key in ("decoder_start_token_id", "pad_token_id", "eos_token_id"):
        given = [value for values in (generation, config) if (value := values.get(key)) is not None]
        if not given or any(type(id_) is not int or id_ != given[0] or not 0 <= id_ < len(pieces) for id_ in given):
            raise CheckpointError(
                f"{name}: {key} is {' and '.join(map(shown, given)) or 'missing'}; expected one id below "
                f"{len(pieces):,}, the same as in {CONFIG}. Correct it there."
            )
        ids[key] = given[0]
    for key, piece in (("pad_token_id", target.pad), ("eos_token_id", target.eos)):
        if pieces[ids[key]] != piece:
            raise CheckpointError(
                f"{name}: {key} is {ids[key]}, '{shown(pieces[ids[key]])}', but the tokenizer has '{shown(piece)}': "
                "they belong to different models."
            )
    start: int = ids["decoder_start_token_id"]
    _check_suppressed(generation or config, name, [start, ids["pad_token_id"], pieces.index(target.unk)])
    return start


def _check_suppressed(options: Mapping[str, Any], name: str, allowed: Collection[int]) -> None:
    for key in ("bad_words_ids", "suppress_tokens"):
        value = options.get(key) or []
        for found in value if isinstance(value, list) else [value]:
            if (found[0] if isinstance(found, list) and len(found) == 1 else found) not in allowed:
                raise CheckpointError(
                    f"{name}: has {key}: {shown(found)}, but nmt suppresses only pad, unk and the decoder's first "
                    "piece. Remove it there to import."
                )


def _weight_files(folder: Path) -> list[Path]:
    """The files that hold a folder's tensors; empty if there are none."""
    for pattern in (WEIGHTS, _SHARDS, _PICKLED):
        if found := sorted(filter(Path.is_file, folder.glob(pattern))):
            return found
    return []


def _read_tensors(files: Sequence[Path]) -> dict[str, Array]:
    if files[0].name != _PICKLED:
        return read_safetensors(files)
    try:
        values = read_torch_file(files[0])
    except CheckpointError as error:
        raise CheckpointError(
            f"{error} nmt runs no pickled code: save the model as safetensors with transformers (save_pretrained), and "
            "import that."
        ) from None
    return read_tensors(files[0], values)


def _naming(tensors: Mapping[str, Array], config: Mapping[str, Any], file: Path) -> Naming:
    """The names of the tensors: of matrices that are one, that of a stored one.

    Raises:
        CheckpointError: a matrix is missing, or two differ that must be the same.
    """
    is_tied = config.get("tie_word_embeddings", True)
    shared, source, target, output = _MATRICES

    def one_of(*names: str) -> str:
        present = [name for name in names if name in tensors]
        if not present:
            raise CheckpointError(f"{file}: lacks {names[0]}: is it a MarianMTModel?")
        for name in present[1:]:
            if is_tied and not np.array_equal(tensors[name], tensors[present[0]]):
                raise CheckpointError(
                    f"{file}: {present[0]} and {name} differ, but tie_word_embeddings of {CONFIG} says that they are "
                    "one matrix. Correct it there."
                )
        return present[0]

    if not is_tied:
        found = one_of(source, shared), one_of(target, shared), one_of(output)
    elif not config.get("share_encoder_decoder_embeddings", True):
        found = one_of(source), one_of(target, output), one_of(target, output)
    else:
        found = (one_of(shared, source, target, output),) * 3
    names = NAMES | matrices(*found)
    if NAMES[OUTPUT_BIAS] not in tensors:
        del names[OUTPUT_BIAS]
    return Naming(names)


def _is_zero(matrix_VD: Array, row: int) -> bool:
    return matrix_VD.ndim > 0 and row < len(matrix_VD) and not matrix_VD[row].any()
