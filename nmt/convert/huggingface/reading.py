"""Reading a MarianMT of Hugging Face transformers: a local folder as save_pretrained writes it, tokenizer included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.convert.files import read_mapping, shown
from nmt.convert.foreign import TARGET_EMBEDDING, Array, ForeignModel, Given
from nmt.convert.huggingface.folder import (
    CONFIG,
    MATRICES,
    TOKENIZER,
    HuggingFaceFolder,
    check_size,
    sizes,
    tied_naming,
)
from nmt.convert.huggingface.fsmt import FSMT, read_fsmt
from nmt.convert.huggingface.multilingual import MULTILINGUAL, read_multilingual
from nmt.convert.segmenters import pieces_by_id, segmented_vocabularies
from nmt.convert.settings import Settings, expressible
from nmt.errors import CheckpointError, VocabularyError

TOOLKIT = "Hugging Face MarianMT"
VOCAB, TARGET_VOCAB = "vocab.json", "target_vocab.json"
SEGMENTERS = {"source": "source.spm", "target": "target.spm"}
# Older versions computed with more values than these.
_MODEL = expressible("Hugging Face", TOOLKIT)
_SPECIAL = {"unk_token": "<unk>", "eos_token": "</s>", "pad_token": "<pad>"}


def read_huggingface(path: Path, given: Given = Given()) -> ForeignModel:
    """Read a MarianMT.

    Args:
        path: its folder.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    config = Settings(read_mapping(path / CONFIG), str(path / CONFIG))
    if config.get("model_type") in list(MULTILINGUAL):  # a wrong value may have no hash
        return read_multilingual(path, config, given)
    if config.get("model_type") == FSMT:
        return read_fsmt(path, config, given)
    config.check(_MODEL)
    ours = {**sizes(config, "gelu"), "positions": "sinusoidal_halves"}
    folder = HuggingFaceFolder(path, config)
    tokenizer = folder.tokenizer
    special = {key: _token(tokenizer, key, path / TOKENIZER) for key in _SPECIAL}
    vocabularies = [path / VOCAB, path / TARGET_VOCAB] if tokenizer.get("separate_vocabs") is True else [path / VOCAB]
    segmenters = [given.source_spm or path / SEGMENTERS["source"], given.target_spm or path / SEGMENTERS["target"]]
    pieces = [pieces_by_id(read_mapping(file), str(file)) for file in vocabularies]
    source, target = segmented_vocabularies(
        (pieces[0], pieces[-1]), segmenters, (vocabularies[0], vocabularies[-1]), special
    )
    check_size(vocabularies[0], source, config.get("vocab_size"))
    check_size(vocabularies[-1], target, config.get("decoder_vocab_size") or config.get("vocab_size"))
    start = folder.start_id(target)
    naming = tied_naming(folder.tensors, config, folder.weights[0])
    if (forced := folder.options.get("forced_bos_token_id")) is not None:
        raise CheckpointError(
            f"{folder.options_file}: has forced_bos_token_id: {shown(forced)}, but nmt forces no first piece of a "
            "MarianMT. Remove it to import."
        )
    starts_with_zero = _is_zero(folder.tensors[naming.tensors[TARGET_EMBEDDING]], start)
    return folder.model(
        ours | {"decoder_start": "zero" if starts_with_zero else "bos"},
        toolkit=TOOLKIT,
        table=_MODEL,
        naming=naming,
        source=source,
        target=target,
        start=start,
        files=(*vocabularies, *segmenters),
        languages=given.languages(tokenizer.get("source_lang"), tokenizer.get("target_lang")),
        ignored=MATRICES,
    )


def _token(tokenizer: Mapping[str, Any], key: str, path: Path) -> str:
    """A special piece: a string, or a mapping with its content."""
    value = tokenizer.get(key, _SPECIAL[key])
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, str):
        raise VocabularyError(f"{path}: {key} is not text. Copy the model again.")
    return value


def _is_zero(matrix_VD: Array, row: int) -> bool:
    return matrix_VD.ndim > 0 and row < len(matrix_VD) and not matrix_VD[row].any()
