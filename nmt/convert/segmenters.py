"""The vocabularies of toolkits that read segmented text, with the SentencePiece models that segment it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from nmt.convert.files import read_bytes, shown
from nmt.convert.foreign import ForeignVocabulary, Given
from nmt.errors import CheckpointError, VocabularyError

_JOINT = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "joint.spm", "spm.bpe.model")
_SPACE = "▁"
_SUBWORD_NMT = "@@"
_LARGEST_MODEL = 64 * 2**20


def find_segmenters(
    folder: Path,
    given: Given,
    languages: tuple[str, str],
    *,
    named: tuple[Path | None, Path | None] = (None, None),
) -> tuple[Path | None, Path | None]:
    """The SentencePiece models of source and target: given by the user, else named by settings, else in the folder.

    Args:
        named: the models of source and target that the settings name.
    """
    return (
        given.source_spm or named[0] or _beside(folder, ("source", "src", languages[0])),
        given.target_spm or named[1] or _beside(folder, ("target", "trg", "tgt", languages[1])),
    )


def _beside(folder: Path, sides: Sequence[str]) -> Path | None:
    names = [f"{start}{side}{end}" for side in sides if side for start, end in (("", ".spm"), ("spm.", ".model"))]
    return next((folder / name for name in (*names, *_JOINT) if (folder / name).is_file()), None)


def segmented_vocabularies(
    pieces: Iterable[Sequence[str]],
    segmenters: Iterable[Path | None],
    names: Iterable[object],
    special: Mapping[str, str],
    *,
    source_eos: bool = True,
    needs_pad: bool = True,
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """The vocabularies of source and target.

    Args:
        pieces: those of both sides, by id.
        segmenters: the SentencePiece models that segment their text; None if text comes as pieces separated by spaces.
        names: of the vocabularies' files, for errors.
        special: ``unk_token``, ``eos_token`` and ``pad_token`` -> piece.
        source_eos: whether the source must have eos: one that is encoded without its end needs none.
        needs_pad: whether both sides must have the piece of padding.

    Raises:
        VocabularyError: pieces are missing or double, or a SentencePiece model is damaged or missing.
    """
    source, target = (
        _segmented_vocabulary(of_side, segmenter, str(name), special, has_eos, needs_pad)
        for of_side, segmenter, name, has_eos in zip(pieces, segmenters, names, (source_eos, True), strict=True)
    )
    return source, target


def _segmented_vocabulary(
    pieces: Sequence[str], segmenter: Path | None, name: str, special: Mapping[str, str], has_eos: bool, needs_pad: bool
) -> ForeignVocabulary:
    unk, eos, pad = (special[key] for key in ("unk_token", "eos_token", "pad_token"))
    check_distinct(pieces, name)
    broken = next((piece for piece in pieces if not piece or not _is_text(piece)), None)
    if broken is not None:
        raise VocabularyError(f"{name}: has the piece '{shown(broken)}', which is not text.")
    needed = dict.fromkeys([unk, *([eos] if has_eos else []), *([pad] if needs_pad else [])])
    if missing := [piece for piece in needed if piece not in pieces]:
        raise VocabularyError(f"{name}: lacks {' and '.join(map(shown, missing))}.")
    if segmenter is None and any(_SPACE in piece for piece in pieces):
        raise VocabularyError(
            f"{name}: has pieces of SentencePiece, but no SentencePiece model lies beside it. Name it with "
            "--source-spm or --target-spm."
        )
    model = None if segmenter is None else read_segmenter(segmenter)
    return ForeignVocabulary(tuple(pieces), unk, eos, model, pad if pad in pieces else None)


def check_distinct(pieces: Sequence[str], name: str) -> None:
    """Refuse a vocabulary that has a piece twice.

    Raises:
        VocabularyError: it does. The message names the piece.
    """
    if len(counts := Counter(pieces)) != len(pieces):
        double = counts.most_common(1)[0][0]
        raise VocabularyError(
            f"{name}: has the piece '{shown(double)}' twice. Give one another name: text gets the id of a single one."
        )


def start_piece(named: object, target: ForeignVocabulary, name: str) -> str:
    """The piece that the decoder reads first.

    Args:
        named: the piece that the files name.
        name: of the file, for errors.

    Raises:
        CheckpointError: it is not a piece of the target.
    """
    if not isinstance(named, str) or named not in target.pieces:
        raise CheckpointError(f"{name}: the decoder starts with '{shown(named)}', which is not a target piece.")
    return named


def pieces_by_id(ids: object, name: str) -> list[str]:
    """The pieces of a vocabulary that gives each its id.

    Args:
        name: of the vocabulary's file, for errors.

    Raises:
        VocabularyError: it does not, or the ids have gaps.
    """
    if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
        raise VocabularyError(f"{name}: is not a vocabulary: expected a mapping from pieces to ids.")
    pieces = sorted(ids, key=ids.__getitem__)
    for index, piece in enumerate(pieces):
        if ids[piece] != index:
            raise VocabularyError(
                f"{name}: its ids are not 0, 1, 2, … without gaps: '{shown(piece)}' has {ids[piece]:,}, not {index:,}."
            )
    return pieces


def segmentation_remarks(source: ForeignVocabulary, target: ForeignVocabulary) -> Iterator[str]:
    """What users must know about the text of a model without SentencePiece models."""
    if source.segmenter is not None and target.segmenter is not None:
        return
    yield "Text is read and written as pieces separated by spaces: segment sources as in training, and join outputs."
    for side in (source, target):
        if side.segmenter is None and any(piece.endswith(_SUBWORD_NMT) for piece in side.pieces):
            yield "Pieces that end with @@ are subword-nmt's: apply its codes to sources, and delete '@@ ' in outputs."
            return


def _is_text(piece: str) -> bool:
    return not any(0xD800 <= ord(character) < 0xE000 or character in "\0\n" for character in piece)


def model_pieces(model: bytes) -> list[str]:
    """The pieces of a SentencePiece model, by its ids.

    Raises:
        RuntimeError, ValueError: the bytes are not a SentencePiece model.
    """
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)  # the constructor takes empty bytes for no model
    pieces: list[str] = processor.id_to_piece(list(range(processor.get_piece_size())))
    return pieces


def read_segmenter(path: Path) -> bytes:
    """A SentencePiece model.

    Raises:
        VocabularyError: the file cannot be read, or is another.
    """
    try:
        if path.is_file() and path.stat().st_size > _LARGEST_MODEL:
            raise ValueError
        content = read_bytes(path)
        model_pieces(content)
    except CheckpointError as error:
        raise VocabularyError(str(error)) from None
    except (RuntimeError, ValueError):
        raise VocabularyError(f"{path}: is not a SentencePiece model.") from None
    return content
