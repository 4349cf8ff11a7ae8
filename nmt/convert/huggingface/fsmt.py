"""Reading FSMT of Hugging Face transformers: fairseq's models of WMT 2019 (Ng et al., arXiv 1907.06616) and their like.

Tensors, positions and vocabularies are fairseq's under other names. Text is prepared by Moses' programs and split by
the merges that fastBPE learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.convert.fairseq import FIRST_POSITION
from nmt.convert.fairseq import NAMES as FAIRSEQ_NAMES
from nmt.convert.files import read_mapping
from nmt.convert.foreign import COMPOSED, Array, ForeignModel, ForeignVocabulary, Given, Naming, matrices
from nmt.convert.huggingface.folder import CONFIG, HuggingFaceFolder, check_size, sizes
from nmt.convert.segmenters import pieces_by_id, read_codes, segmented_vocabularies
from nmt.convert.settings import Settings, expressible
from nmt.data.byte_pair_codes import JOINER
from nmt.text.steps import Lowercase, MosesPunctuation, MosesTokenize, TextSteps

FSMT = "fsmt"
"""The type of the model."""
_TOOLKIT = "Hugging Face FSMT"
_SOURCE_VOCAB, _TARGET_VOCAB, _MERGES = "vocab-src.json", "vocab-tgt.json", "merges.txt"
_SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_DEFAULTS: dict[str, Any] = {
    "decoder_start_token_id": 2,
    "pad_token_id": 1,
    "eos_token_id": 2,
    "scale_embedding": True,
    "tie_word_embeddings": False,
}
"""Settings of transformers that a file may leave out."""
_MODEL = expressible("Hugging Face", _TOOLKIT)
_END = "</w>"
_SOURCE, _TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_OUTPUT = "model.decoder.output_projection.weight"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_NAMES = {ours: f"model.{theirs}" for ours, theirs in FAIRSEQ_NAMES.items()}


def read_fsmt(path: Path, given_settings: Mapping[str, Any], given: Given) -> ForeignModel:
    """Read an FSMT.

    Args:
        path: its folder.
        given_settings: those of ``config.json``.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    config = Settings({**_DEFAULTS, **given_settings}, str(path / CONFIG))
    config.check(_MODEL)
    folder = HuggingFaceFolder(path, config)
    languages = _languages(config, given)
    source, target = _vocabularies(path, config)
    start = folder.start_id(target)
    return folder.model(
        {**sizes(config, "relu"), "norm": "post", "positions": "tensor2tensor", "first_position": FIRST_POSITION},
        toolkit=_TOOLKIT,
        table=_MODEL,
        naming=_naming(folder.tensors, is_tied=bool(config["tie_word_embeddings"])),
        source=source,
        target=target,
        start=start,
        files=map(path.joinpath, (_SOURCE_VOCAB, _TARGET_VOCAB, _MERGES)),
        beam=5,
        text=_text(languages, is_lower=folder.tokenizer.get("do_lower_case") is True),
        languages=languages,
        ignored=(_SOURCE, _TARGET, _OUTPUT),
    )


def _languages(config: Mapping[str, Any], given: Given) -> tuple[str, str]:
    named = config.get("langs")
    return given.languages(*named) if isinstance(named, list) and len(named) == 2 else given.languages()


def _text(languages: tuple[str, str], *, is_lower: bool) -> TextSteps:
    """What text goes through before merges split its words."""
    source, target = (MosesTokenize(language=language, splits_dashes=True) for language in languages)
    lower = [Lowercase()] if is_lower else []
    punctuation = MosesPunctuation(language=languages[0], replaces_unicode=True)
    return TextSteps((*COMPOSED.source, *lower, punctuation, source), (*COMPOSED.target, *lower, target))


def _vocabularies(folder: Path, config: Settings) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """The vocabularies of source and target.

    Raises:
        NmtError: a file is missing or damaged, or of another model.
    """
    files = folder / _SOURCE_VOCAB, folder / _TARGET_VOCAB
    merges = read_codes(folder / _MERGES)
    # The end of a word is no symbol of its own, though the file names no version.
    codes = [f"#version: 0.2\n{merges}"] * 2
    source, target = segmented_vocabularies(map(_pieces, files), (None, None), files, _SPECIAL, codes=codes)
    check_size(files[0], source, config.get("src_vocab_size"))
    check_size(files[1], target, config.get("tgt_vocab_size"))
    return source, target


def _pieces(file: Path) -> list[str]:
    """The pieces by id, as fairseq names them: one within a word ends with ``@@``, instead of ``</w>`` at its end."""
    return [
        piece if piece in _SPECIAL.values() else piece.removesuffix(_END) if piece.endswith(_END) else piece + JOINER
        for piece in pieces_by_id(read_mapping(file), str(file))
    ]


def _naming(tensors: Mapping[str, Array], *, is_tied: bool) -> Naming:
    """The names of the tensors: of matrices that are one, that of a stored one. The output's is always the target's."""

    def one_of(*names: str) -> str:
        return next((name for name in names if name in tensors), names[0])

    source = one_of(_SOURCE, *((_TARGET, _OUTPUT) if is_tied else ()))
    target = one_of(_TARGET, _OUTPUT, *((_SOURCE,) if is_tied else ()))
    names = _NAMES | matrices(source, target, one_of(_OUTPUT, target), positions=_POSITIONS)
    return Naming(names, first_position=FIRST_POSITION)
