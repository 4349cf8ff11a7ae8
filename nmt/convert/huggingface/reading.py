"""Reading a MarianMT of Hugging Face transformers from a local folder."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from nmt.config import ModelConfig
from nmt.convert.completing import files_by_name
from nmt.convert.foreign import Array, ForeignModel, ForeignVocabulary, Part
from nmt.convert.given import NOTHING_GIVEN, Given
from nmt.convert.huggingface.embeddings import Embeddings, unscaled
from nmt.convert.huggingface.names import MATRICES, OUTPUT_BIAS, POSITIONS, layout
from nmt.convert.huggingface.settings import GenerationSettings, MarianSettings
from nmt.convert.huggingface.tensor_files import read_tensors, weight_files
from nmt.convert.huggingface.tokenizer_files import (
    TARGET_VOCAB,
    UNK,
    VOCAB,
    TokenizerFiles,
    read_tokenizer,
    renamed,
)
from nmt.convert.json_files import read_json
from nmt.convert.settings import language_code, version_of
from nmt.errors import CheckpointError
from nmt.model.positions import fixed_positions

CONFIG, GENERATION = "config.json", "generation_config.json"
TOOLKIT = "Hugging Face MarianMT"
_LAYER = re.compile(r"model\.(encoder|decoder)\.layers\.(\d+)\.")
_SAME_TABLE = 1e-6
"""The largest difference of a stored table of positions from the computed one, in fp32."""


def is_huggingface(path: Path) -> bool:
    """Whether a path looks like a model of Hugging Face: a folder with config.json and weights."""
    return (path / CONFIG).is_file() and bool(weight_files(path))


def read_huggingface(path: Path, given: Given = NOTHING_GIVEN) -> ForeignModel:
    """Read a MarianMT.

    Args:
        path: a folder as save_pretrained of transformers writes it, tokenizer included.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    files = weight_files(path)
    settings = MarianSettings(read_json(path / CONFIG), str(path / CONFIG))
    tokenizer = read_tokenizer(path, given)
    _check_vocabularies(path, settings, tokenizer)
    tensors = read_tensors(files)
    embeddings = Embeddings.find(tensors, settings, files[0])
    _check_layers(tensors, settings, files[0])
    special = _special_pieces(path, settings, tokenizer)
    start: Literal["bos", "zero"] = "bos" if tensors[embeddings.target][special.start_id].any() else "zero"
    if not settings.flag("scale_embedding", False):
        tensors, embeddings = unscaled(tensors, embeddings, settings)
    without_effect = tuple(sorted(MATRICES.intersection(tensors) - {*embeddings.names}))
    config = settings.model_config(positions="sinusoidal_halves", tied=embeddings.tied, start=start)
    tensors, config, tables = _with_positions(tensors, config, files[0])
    found = [path / CONFIG, *special.files, *files, *tokenizer.files]
    names = tokenizer.settings
    return ForeignModel(
        toolkit=TOOLKIT,
        version=version_of(settings.values.get("transformers_version")),
        config=config,
        decoding=special.generation.decoding(),
        tensors=tensors,
        layout=layout(
            POSITIONS if config.positions == "learned" else {},
            source=embeddings.source,
            target=embeddings.target,
            output=embeddings.output,
            output_bias=OUTPUT_BIAS if OUTPUT_BIAS in tensors else None,
        ),
        source=_vocabulary(tokenizer.source, tokenizer, tokenizer.segmenters[0], special.start),
        target=_vocabulary(tokenizer.target, tokenizer, tokenizer.segmenters[1], special.start),
        start=special.start,
        files=files_by_name(found),
        source_lang=given.source_lang or language_code(names.get("source_lang")),
        target_lang=given.target_lang or language_code(names.get("target_lang")),
        settings=dict(settings.values) | {"generation": dict(special.generation.values)},
        ignored=(*without_effect, *tables),
        remarks=tuple(special.generation.remarks()),
    )


def _vocabulary(pieces: tuple[str, ...], tokenizer: TokenizerFiles, segmenter: bytes, start: str) -> ForeignVocabulary:
    special = {UNK, tokenizer.eos, tokenizer.pad, start}
    return ForeignVocabulary(renamed(pieces, special), UNK, tokenizer.eos, segmenter, tokenizer.pad)


def _check_vocabularies(path: Path, settings: MarianSettings, tokenizer: TokenizerFiles) -> None:
    sizes = settings.vocabulary_sizes
    is_separate = tokenizer.source is not tokenizer.target
    if is_separate and settings.flag("share_encoder_decoder_embeddings", True):
        raise CheckpointError(
            f"{path}: has {TARGET_VOCAB}, but share_encoder_decoder_embeddings of {CONFIG} says that both languages "
            "have one vocabulary: they belong to different models."
        )
    sides = ((VOCAB, tokenizer.source, sizes[0]), (TARGET_VOCAB if is_separate else VOCAB, tokenizer.target, sizes[1]))
    for name, pieces, size in sides:
        if len(pieces) != size:
            raise CheckpointError(
                f"{path}: {name} has {len(pieces):,} pieces, but {CONFIG} says {size:,}. nmt imports models whose "
                "pieces all stand there, without added tokens."
            )


def _check_layers(tensors: Mapping[str, Array], settings: MarianSettings, file: Path) -> None:
    parts: tuple[Part, ...] = ("encoder", "decoder")
    for part in parts:
        numbers = {match[2] for name in tensors if (match := _LAYER.match(name)) and match[1] == part}
        if len(numbers) != (wanted := settings.size(f"{part}_layers")):
            raise CheckpointError(
                f"{file}: has {len(numbers)} {part} layers, but {settings.name} says {wanted}: they belong to "
                "different models."
            )


@dataclass(frozen=True)
class _Special:
    """The special pieces of the decoder."""

    generation: GenerationSettings
    start: str
    start_id: int
    files: tuple[Path, ...]


def _special_pieces(path: Path, settings: MarianSettings, tokenizer: TokenizerFiles) -> _Special:
    has_generation = (path / GENERATION).is_file()
    values = read_json(path / GENERATION) if has_generation else {}
    generation = GenerationSettings(values, settings.values, str(path / (GENERATION if has_generation else CONFIG)))
    pieces = tokenizer.target
    start, pad, eos = (
        generation.piece(key, len(pieces)) for key in ("decoder_start_token_id", "pad_token_id", "eos_token_id")
    )
    for key, index, piece in (("pad_token_id", pad, tokenizer.pad), ("eos_token_id", eos, tokenizer.eos)):
        if pieces[index] != piece:
            raise CheckpointError(
                f"{generation.name}: {key} is {index}, {pieces[index][:40]!r}, but the tokenizer has {piece[:40]!r}: "
                "they belong to different models."
            )
    generation.check_suppressed({start, pad, pieces.index(UNK)})
    return _Special(generation, pieces[start], start, (path / GENERATION,) if has_generation else ())


def _with_positions(
    tensors: dict[str, Array], config: ModelConfig, file: Path
) -> tuple[dict[str, Array], ModelConfig, tuple[str, ...]]:
    """Stored positions, which transformers uses instead of its own: learned ones for us, unless they are the same.

    Returns:
        The tensors, the settings, and the names of tables that may be ignored.

    Raises:
        CheckpointError: a table has another size.
    """
    stored = tuple(name for name in POSITIONS.values() if name in tensors)
    if not stored:
        return tensors, config, ()
    size = config.max_positions, config.d_model
    for name in stored:
        if tensors[name].shape != size:
            raise CheckpointError(
                f"{file}: {name} has {tensors[name].size:,} numbers, expected {math.prod(size):,}: it belongs to "
                "another model."
            )
    fixed = fixed_positions(config)
    assert fixed is not None
    table = fixed.float().numpy()
    if all(np.abs(tensors[name] - table).max() <= _SAME_TABLE for name in stored):
        return tensors, config, stored
    tables = dict.fromkeys(POSITIONS.values(), table)
    return {**tables, **tensors}, config.model_copy(update={"positions": "learned"}), ()
