"""Reading a MarianMT of Hugging Face transformers: a local folder as save_pretrained writes it, tokenizer included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.convert.files import optional_mapping, read_mapping, shown
from nmt.convert.foreign import TARGET_EMBEDDING, Array, ForeignModel, ForeignVocabulary, Given
from nmt.convert.huggingface.folder import (
    CONFIG,
    GENERATION,
    MATRICES,
    SEARCH,
    TOKENIZER,
    decoding,
    read_weights,
    sizes,
    start_id,
    tied_naming,
    weight_files,
)
from nmt.convert.huggingface.fsmt import FSMT, read_fsmt
from nmt.convert.huggingface.multilingual import MULTILINGUAL, read_multilingual
from nmt.convert.segmenters import pieces_by_id, segmented_vocabularies
from nmt.convert.settings import Settings, expressible, flat, unknown_remarks, unused_remarks, version_of
from nmt.convert.tensors import NO_POWERS, UNSCALED, foreign_model
from nmt.errors import CheckpointError, VocabularyError

TOOLKIT = "Hugging Face MarianMT"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"
SEGMENTERS = {"source": "source.spm", "target": "target.spm"}
# Older versions computed with more values than these.
_MODEL = expressible("Hugging Face", TOOLKIT)
_ARCHITECTURE = "MarianMTModel"
_SPECIAL = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}


def read_huggingface(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a MarianMT.

    Args:
        path: its folder.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    name = str(path / CONFIG)
    config = Settings(read_mapping(path / CONFIG), name)
    if config.get("model_type") in MULTILINGUAL:
        return read_multilingual(path, config, given)
    if config.get("model_type") == FSMT:
        return read_fsmt(path, config, given)
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
    start = start_id(generation, config, target, path)
    files = weight_files(path)
    tensors = read_weights(files)
    naming = tied_naming(tensors, config, files[0])
    found = [path / CONFIG, path / GENERATION, *files, *vocabularies, *segmenters, path / TOKENIZER]
    options = generation or config
    options_name = name if options is config else str(path / GENERATION)
    if (forced := options.get("forced_bos_token_id")) is not None:
        raise CheckpointError(
            f"{options_name}: has forced_bos_token_id: {shown(forced)}, but nmt forces no first piece of a MarianMT. "
            "Remove it to import."
        )
    return foreign_model(
        str(files[0]),
        ours | {"decoder_start": "zero" if _is_zero(tensors[naming.tensors[TARGET_EMBEDDING]], start) else "bos"},
        toolkit=TOOLKIT,
        version=version_of(config.get("transformers_version")),
        decoding=decoding(options, options_name),
        tensors=tensors,
        naming=naming,
        source=source,
        target=target,
        start=target.pieces[start],
        powers=NO_POWERS if config.get("scale_embedding") else UNSCALED,
        files=[file for file in found if file.is_file()],
        languages=given.languages(tokenizer.get("source_lang"), tokenizer.get("target_lang")),
        settings=flat({**config, "generation": generation}),
        ignored=MATRICES,
        remarks=[
            *unused_remarks(options, SEARCH, GENERATION if generation else CONFIG, "transformers"),
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
    return {**sizes(config, "gelu"), "positions": "sinusoidal_halves"}


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


def _is_zero(matrix_VD: Array, row: int) -> bool:
    return matrix_VD.ndim > 0 and row < len(matrix_VD) and not matrix_VD[row].any()
