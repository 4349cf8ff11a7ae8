"""A vocabulary of another toolkit in our form: for each side its SentencePiece model, and its pieces in our order.

Our ids are pad, unk, bos and eos, then the toolkit's other pieces in its order.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from sentencepiece import SentencePieceTrainer

from nmt.convert.foreign import ForeignModel, ForeignVocabulary
from nmt.data.imported_vocab import LANGUAGE_TAG, ImportedVocabulary
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.text.languages import language_tag
from nmt.text.steps import Affix, TextSteps

_SPACE = "▁"
_ANY = "a"
"""A word for a SentencePiece model, which needs one."""


@dataclass(frozen=True)
class PieceOrder:
    """Which piece of the toolkit has each of our ids."""

    theirs: tuple[int | None, ...]
    """Our id -> the toolkit's; None for a special piece that it lacks on this side."""
    silent: frozenset[int]
    """Our ids that the model must never predict: the toolkit has no such piece, or it has another id of ours too."""


def piece_order(vocabulary: ForeignVocabulary, start: str | None) -> PieceOrder:
    """Our order of a toolkit's pieces.

    Args:
        start: the piece that the decoder reads first, which becomes our bos; None if it reads zeros. The vocabulary of
            source text may lack it.
    """
    ids: dict[str | None, int] = {piece: index for index, piece in enumerate(vocabulary.pieces)}
    pad = vocabulary.pad if vocabulary.pad != start else None
    special = [ids.get(piece) for piece in (pad, vocabulary.unk, start, vocabulary.eos)]
    silent = {index for index, theirs in enumerate(special) if theirs is None}
    if start == vocabulary.eos:  # bos is a copy of eos
        silent.add(Vocabulary.BOS)
    taken = set(special)
    return PieceOrder(
        (*special, *(index for index in range(len(vocabulary.pieces)) if index not in taken)), frozenset(silent)
    )


def piece_names(vocabulary: ForeignVocabulary, start: str | None) -> dict[str, str]:
    """What a toolkit's pieces are called in our vocabulary: special ones as ours, words of text with their space."""
    words = () if vocabulary.segmenter is not None else frozenset(vocabulary.pieces).difference(vocabulary.silent)
    names = {
        piece: _SPACE * (piece in words and not LANGUAGE_TAG.fullmatch(piece)) + _free(piece, SPECIAL_PIECES)
        for piece in vocabulary.pieces
    }
    special = zip((vocabulary.pad, vocabulary.unk, start, vocabulary.eos), SPECIAL_PIECES, strict=True)
    return names | {piece: ours for piece, ours in special if piece is not None}


def with_tags(text: TextSteps, source: ForeignVocabulary) -> TextSteps:
    """The steps of text, and the tags (``>>deu<<``) of a vocabulary, of which the target language chooses one."""
    pieces: dict[str, str] = {}
    for tag in filter(LANGUAGE_TAG.fullmatch, source.pieces):
        pieces.setdefault(language_tag(tag.strip("<>")), tag)  # >>cmn<< and >>zho<< are of one language
    if not pieces:
        return text
    return TextSteps((*text.source, Affix(chosen_by="target", pieces=pieces, is_silent=False)), text.target)


def our_vocabulary(model: ForeignModel) -> VocabularyPair:
    """The vocabulary of a bundle: the toolkit's pieces in our order, and its SentencePiece models as they are.

    Raises:
        VocabularyError: a SentencePiece model is damaged.
    """
    source = _our_side(model.source, model)
    target = _our_side(model.target, model)
    is_one = (source.model_bytes, source.pieces_json) == (target.model_bytes, target.pieces_json)
    return VocabularyPair(source, source if is_one else target)


def _our_side(vocabulary: ForeignVocabulary, model: ForeignModel) -> ImportedVocabulary:
    names = piece_names(vocabulary, model.start)
    others = piece_order(vocabulary, model.start).theirs[len(SPECIAL_PIECES) :]
    pieces = [names[vocabulary.pieces[theirs]] for theirs in others if theirs is not None]
    is_segmented = vocabulary.segmenter is None
    segmenter = vocabulary.segmenter or _word_model([piece.removeprefix(_SPACE) for piece in pieces])
    return ImportedVocabulary(
        segmenter,
        [*SPECIAL_PIECES, *pieces],
        is_segmented=is_segmented,
        codes=vocabulary.codes,
        is_restricted=vocabulary.is_restricted,
        silent=[names[piece] for piece in vocabulary.silent],
        name=str(model.folder),
    )


def _free(text: str, taken: Sequence[str]) -> str:
    """The piece, with one more apostrophe if it is named as one of our special pieces but for apostrophes."""
    return f"{text}'" if text.rstrip("'") in taken else text


def _word_model(words: Sequence[str]) -> bytes:
    """A SentencePiece model that splits text at spaces into these words."""
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*words, _ANY]),
        model_writer=out,
        model_type="word",
        vocab_size=len(SPECIAL_PIECES) + len(words) + 1,
        hard_vocab_limit=False,
        pad_id=Vocabulary.PAD,
        unk_id=Vocabulary.UNK,
        bos_id=Vocabulary.BOS,
        eos_id=Vocabulary.EOS,
        character_coverage=1.0,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return out.getvalue()
