"""Reading M2M-100, NLLB-200 and mBART-50 of Hugging Face transformers: one model for many languages.

Source text begins with the piece of its language, and the decoder's first piece is that of the target language (Fan et
al. 2020, arXiv 2010.11125; Tang et al. 2020, arXiv 2008.00401; NLLB Team 2022, arXiv 2207.04672).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.convert.fairseq import FIRST_POSITION
from nmt.convert.files import optional_mapping, read_mapping, shown
from nmt.convert.foreign import COMPOSED, POSITIONS, ForeignModel, ForeignVocabulary, Given, Naming
from nmt.convert.huggingface.folder import CONFIG, MATRICES, TOKENIZER, HuggingFaceFolder, sizes, tied_naming
from nmt.convert.segmenters import model_pieces, pieces_by_id, read_segmenter
from nmt.convert.settings import Settings, Table, expressible
from nmt.errors import CheckpointError, ConfigError
from nmt.text.languages import fitting
from nmt.text.steps import Affix, TextSteps

_SPM, _VOCAB, _SPECIAL_MAP = "sentencepiece.bpe.model", "vocab.json", "special_tokens_map.json"
_OF_CC25 = "MBartTokenizer"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The first pieces, as in fairseq."""
_OF_SENTENCEPIECE = 3
"""Pieces of the SentencePiece model that the special ones replace."""
_UNUSED = "<unused-{}>"
# The languages of M2M-100 in the order of their ids, as transformers' tokeniser lists them: its files may not.
_OF_M2M_100 = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig
ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so
sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
_BUFFERS = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")


@dataclass(frozen=True)
class _Kind:
    """A kind of model for many languages."""

    toolkit: str
    language: re.Pattern[str]
    """The piece of a language; the group is its code."""
    model: Mapping[str, Any]
    """Settings of our model."""

    @property
    def table(self) -> Table:
        """What ours can express of its settings."""
        return expressible("Hugging Face", self.toolkit)


MULTILINGUAL = {
    "m2m_100": _Kind(
        "Hugging Face M2M-100",
        re.compile(r"__([a-z]{2,3})__|([a-z]{3}_[A-Z][a-z]{3})"),  # NLLB-200 has the second form
        {"positions": "tensor2tensor", "first_position": FIRST_POSITION},
    ),
    "mbart": _Kind(
        "Hugging Face mBART-50",
        re.compile(r"([a-z]{2}_[A-Z]{2})"),
        {"positions": "learned", "embedding_norm": True},
    ),
}
"""The type of a model -> its kind."""


def read_multilingual(path: Path, config: Settings, given: Given) -> ForeignModel:
    """Read a model for many languages.

    Args:
        path: its folder.
        config: its settings, of a type in :data:`MULTILINGUAL`.

    Raises:
        NmtError: a file is missing or damaged, or the model has something that ours cannot express.
    """
    kind = MULTILINGUAL[config["model_type"]]
    config.check(kind.table)
    folder = HuggingFaceFolder(path, config)
    tokenizer = folder.tokenizer
    if str(tokenizer.get("tokenizer_class")).startswith(_OF_CC25):
        raise CheckpointError(
            f"{path}: is an mBART of 25 languages, whose pieces stand behind the text. nmt has mBART-50."
        )
    segmenter = given.source_spm or path / _SPM
    vocabulary, languages = _vocabulary(path, segmenter, kind, config, tokenizer)
    start = folder.start_id(vocabulary)
    naming = tied_naming(folder.tensors, config, folder.weights[0])
    has_positions = kind.model["positions"] == "learned"
    names = {ours: theirs for ours, theirs in naming.tensors.items() if has_positions or ours not in POSITIONS}
    forced = folder.options.get("forced_bos_token_id")
    forced_language = _language_of_id(forced, vocabulary, languages, str(folder.options_file))
    return folder.model(
        {**sizes(config, "relu"), **kind.model, "norm": "pre"},
        toolkit=kind.toolkit,
        table=kind.table,
        naming=Naming(names, first_position=FIRST_POSITION),
        source=vocabulary,
        target=vocabulary,
        start=start,
        files=(path / _VOCAB, segmenter, path / _SPECIAL_MAP),
        text=TextSteps(
            (*COMPOSED.source, Affix(chosen_by="source", pieces=languages)),
            (*COMPOSED.target, Affix(chosen_by="target", pieces=languages)),
        ),
        languages=(
            _known(given.source_lang or tokenizer.get("src_lang"), languages, "--source-lang"),
            _known(given.target_lang or tokenizer.get("tgt_lang") or forced_language, languages, "--target-lang"),
        ),
        ignored=(*MATRICES, *_BUFFERS),
    )


def _vocabulary(
    folder: Path, segmenter: Path, kind: _Kind, config: Settings, tokenizer: Mapping[str, Any]
) -> tuple[ForeignVocabulary, dict[str, str]]:
    """The pieces by id, and the piece of each language by its code.

    M2M-100 lists its pieces; NLLB-200 and mBART-50 have those of the SentencePiece model, moved up by one. The
    languages follow, then pieces that no text becomes.

    Raises:
        CheckpointError: the files do not name the languages, or have more pieces than the model.
    """
    if not segmenter.is_file():
        raise CheckpointError(
            f"{folder}: lacks {_SPM}: copy it there from where the model was published, or name it with --source-spm."
        )
    model = read_segmenter(segmenter)
    lists = (folder / _VOCAB).is_file()
    pieces = pieces_by_id(read_mapping(folder / _VOCAB), str(folder / _VOCAB)) if lists else []
    pieces = pieces or [*_SPECIAL, *model_pieces(model)[_OF_SENTENCEPIECE:]]
    if tuple(pieces[: len(_SPECIAL)]) != _SPECIAL:
        raise CheckpointError(f"{folder / _VOCAB}: its first pieces are not {', '.join(_SPECIAL)}. Copy it again.")
    found = {piece: match for piece in _added(folder, tokenizer) if (match := kind.language.fullmatch(piece))}
    if not found:
        raise CheckpointError(
            f"{folder}: {_SPECIAL_MAP} and {TOKENIZER} name no languages. Copy them there from where the model was "
            "published."
        )
    more = ["<mask>"] if not lists else []
    silent = [piece for piece in (*found, *more) if piece not in pieces]
    size = config.get("vocab_size")
    missing = size - len(pieces) - len(silent) if isinstance(size, int) else -1
    if missing < 0:
        raise CheckpointError(
            f"{folder}: has {len(pieces):,} pieces and {len(silent):,} of languages and the like, but {CONFIG} says "
            f"{shown(size)}: the files belong to different models."
        )
    silent += [_UNUSED.format(number) for number in range(1, missing + 1)]
    languages = {_code(match): piece for piece, match in found.items()}
    unheard = (_SPECIAL[0], *silent)
    _, pad, eos, unk = _SPECIAL
    return ForeignVocabulary((*pieces, *silent), unk, eos, model, pad, silent=unheard), languages


def _added(folder: Path, tokenizer: Mapping[str, Any]) -> list[str]:
    """The special pieces beyond the usual ones, in the order of their ids."""
    for values in (tokenizer, optional_mapping(folder / _SPECIAL_MAP)):
        for key in ("extra_special_tokens", "additional_special_tokens"):
            listed = values.get(key)
            if isinstance(listed, list) and listed:
                contents = [one.get("content") if isinstance(one, dict) else one for one in listed]
                return [one for one in contents if isinstance(one, str)]
    return [f"__{code}__" for code in _OF_M2M_100.split()] if tokenizer.get("language_codes") == "m2m100" else []


def _code(match: re.Match[str]) -> str:
    """The code of a language, without mBART-50's regions that are none."""
    [code] = filter(None, match.groups())
    return str(code).removesuffix("_XX")


def _known(code: object, languages: Mapping[str, str], option: str) -> str:
    """The model's spelling of a language's code; no text if none is given.

    Raises:
        ConfigError: the model has no such language, or several.
    """
    if not isinstance(code, str) or not code:
        return ""
    known = fitting(languages, code)
    if len(known) > 1:
        raise ConfigError(f"{option} {code}: which of {', '.join(known)}?")
    if not known:
        raise ConfigError(f"{option} {code}: the model does not have it. It has {', '.join(languages)}.")
    return known[0]


def _language_of_id(
    forced: object, vocabulary: ForeignVocabulary, languages: Mapping[str, str], name: str
) -> str | None:
    """The language whose piece every output begins with; None if none is forced.

    Raises:
        CheckpointError: another piece is forced.
    """
    if forced is None:
        return None
    of_piece = {piece: code for code, piece in languages.items()}
    pieces: Sequence[str] = vocabulary.pieces
    if type(forced) is not int or not 0 <= forced < len(pieces) or pieces[forced] not in of_piece:
        raise CheckpointError(
            f"{name}: has forced_bos_token_id: {shown(forced)}, which is not the piece of a language."
        )
    return of_piece[pieces[forced]]
