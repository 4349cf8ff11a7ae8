"""A vocabulary of another toolkit in our form: one SentencePiece model per side, whose pieces stand in our order.

Our ids are pad, unk, bos and eos, then the toolkit's other pieces in its order.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass

from sentencepiece import SentencePieceTrainer

from nmt.convert.foreign import ForeignModel, ForeignVocabulary
from nmt.data.model_file import (
    Piece,
    PieceKind,
    for_segmented_text,
    read_pieces,
    with_known_pieces,
    with_pieces,
    with_target_model,
    without_our_fields,
)
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.errors import VocabularyError

_SPACE = "▁"


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
    space = _SPACE if vocabulary.segmenter is None else ""
    names = {piece: space + _free(piece, SPECIAL_PIECES) for piece in vocabulary.pieces}
    special = zip((vocabulary.pad, vocabulary.unk, start, vocabulary.eos), SPECIAL_PIECES, strict=True)
    return names | {piece: ours for piece, ours in special if piece is not None}


def our_vocabulary(model: ForeignModel) -> Vocabulary:
    """The vocabulary of a bundle: that of source text, with that of target text within if they differ.

    Raises:
        VocabularyError: a SentencePiece model is damaged.
    """
    try:
        source, target = (_model_file(side, model.start) for side in (model.source, model.target))
    except ValueError as error:
        raise VocabularyError(f"{model.folder}: a SentencePiece model is damaged: {error}.") from None
    return Vocabulary(source if source == target else with_target_model(source, target), name=str(model.folder))


def _model_file(vocabulary: ForeignVocabulary, start: str | None) -> bytes:
    order = piece_order(vocabulary, start)
    names = piece_names(vocabulary, start)
    others = order.theirs[len(SPECIAL_PIECES) :]
    texts = [names[vocabulary.pieces[theirs]] for theirs in others if theirs is not None]
    if vocabulary.segmenter is None:
        return for_segmented_text(with_pieces(_words(), [*_special(), *map(Piece, texts)]))
    segmenter = {piece.text: piece for piece in read_pieces(vocabulary.segmenter) if _makes(piece)}
    pieces = [
        *_special(),
        *(segmenter.pop(text, Piece(text, kind=PieceKind.CONTROL)) for text in texts),
    ]
    known = len(pieces)
    model = with_pieces(vocabulary.segmenter, [*pieces, *segmenter.values()])
    return with_known_pieces(model, known) if segmenter else model


def _special() -> list[Piece]:
    kinds = (PieceKind.CONTROL, PieceKind.UNKNOWN, PieceKind.CONTROL, PieceKind.CONTROL)
    return [Piece(text, kind=kind) for text, kind in zip(SPECIAL_PIECES, kinds, strict=True)]


def _makes(piece: Piece) -> bool:
    """Whether SentencePiece may make a piece from text."""
    return piece.kind not in (PieceKind.UNKNOWN, PieceKind.CONTROL)


def _free(text: str, taken: Sequence[str]) -> str:
    """The piece, with an apostrophe if it is named as one of our special pieces."""
    return f"{text}'" if text in taken else text


def plain_segmenter(vocab: Vocabulary) -> bytes:
    """The SentencePiece model of one side's text, without the pieces that it never makes: it writes those as they are.

    Its ids are not those of the translation model.
    """
    special, others = (pieces := read_pieces(vocab.model_bytes))[: len(SPECIAL_PIECES)], pieces[len(SPECIAL_PIECES) :]
    return with_pieces(without_our_fields(vocab.model_bytes), [*special, *filter(_makes, others)])


def their_piece(text: str) -> str:
    """The toolkit's name of a piece of ours."""
    return text[:-1] if text[:-1] in SPECIAL_PIECES else text


@functools.cache
def _words() -> bytes:
    """A SentencePiece model that splits text at spaces; its pieces are to be replaced."""
    out = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(["a b"]),
        model_writer=out,
        model_type="word",
        vocab_size=len(SPECIAL_PIECES) + 2,
        pad_id=Vocabulary.PAD,
        unk_id=Vocabulary.UNK,
        bos_id=Vocabulary.BOS,
        eos_id=Vocabulary.EOS,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    return out.getvalue()
