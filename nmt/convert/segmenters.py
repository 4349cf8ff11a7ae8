"""The vocabularies of toolkits that read segmented text, with the SentencePiece models or the codes that segment it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

from nmt.convert.files import named_in, read_bytes, read_text, shown
from nmt.convert.foreign import ForeignVocabulary, Given
from nmt.data.byte_pair_codes import JOINER, BytePairCodes
from nmt.errors import CheckpointError, VocabularyError
from nmt.text.steps import MosesTokenize, TextSteps

_JOINT = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "joint.spm", "spm.bpe.model")
_JOINT_CODES = ("bpecodes", "code", "bpe.codes", "codes.bpe")
_SPACE = "▁"
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
    beside = _of_sides(folder, languages, (("", ".spm"), ("spm.", ".model")), _JOINT)
    return given.source_spm or named[0] or beside[0], given.target_spm or named[1] or beside[1]


def find_codes(folder: Path, languages: tuple[str, str]) -> tuple[Path | None, Path | None]:
    """The files of byte-pair codes of source and target in a folder."""
    return _of_sides(folder, languages, (("", ".bpe"), ("", ".codes"), ("codes.", "")), _JOINT_CODES)


def named_subwords(folder: Path, options: Mapping[str, Any]) -> tuple[Path | None, Path | None]:
    """The files of a folder that options of a transform of OpenNMT-py or Eole name; the source's serves both sides."""
    source, target = (named_in(folder, options.get(f"{side}_subword_model")) for side in ("src", "tgt"))
    return source, target or source


def named_codes(folder: Path, options: Mapping[str, Any]) -> tuple[Path | None, Path | None]:
    """The codes that options name likewise; none if a list of frequent pieces restricts them."""
    is_restricted = any(options.get(f"{side}_subword_vocab") for side in ("src", "tgt"))
    return (None, None) if is_restricted else named_subwords(folder, options)


def _of_sides(
    folder: Path, languages: tuple[str, str], around: Sequence[tuple[str, str]], joint: Sequence[str]
) -> tuple[Path | None, Path | None]:
    """The files of source and target in a folder.

    Args:
        around: the beginnings and ends of names that hold a side's name.
        joint: names of files for both sides.
    """
    found = []
    for sides in (("source", "src", languages[0]), ("target", "trg", "tgt", languages[1])):
        names = [f"{start}{side}{end}" for side in sides if side for start, end in around]
        found.append(next((folder / name for name in (*names, *joint) if (folder / name).is_file()), None))
    return found[0], found[1]


def segmented_vocabularies(
    pieces: Iterable[Sequence[str]],
    segmenters: Iterable[Path | None],
    names: Iterable[object],
    special: Mapping[str, str],
    *,
    codes: Iterable[str | None] = (None, None),
    source_eos: bool = True,
    needs_pad: bool = True,
) -> tuple[ForeignVocabulary, ForeignVocabulary]:
    """The vocabularies of source and target.

    Args:
        pieces: those of both sides, by id.
        segmenters: the SentencePiece models that segment their text; None if text comes as pieces separated by spaces.
        names: of the vocabularies' files, for errors.
        special: ``unk_token``, ``eos_token`` and ``pad_token`` -> piece.
        codes: the merges that split words into pieces, where no SentencePiece model does.
        source_eos: whether the source must have eos: one that is encoded without its end needs none.
        needs_pad: whether both sides must have the piece of padding.

    Raises:
        VocabularyError: pieces are missing or double; or a SentencePiece model, or codes, are damaged or missing.
    """
    unk, eos, pad = (special[key] for key in ("unk_token", "eos_token", "pad_token"))
    sides = []
    for of_side, segmenter, merges, name, has_eos in zip(
        pieces, segmenters, codes, names, (source_eos, True), strict=True
    ):
        check_distinct(of_side, str(name))
        broken = next((piece for piece in of_side if not piece or not _is_text(piece)), None)
        if broken is not None:
            raise VocabularyError(f"{name}: has the piece '{shown(broken)}', which is not text.")
        needed = dict.fromkeys([unk, *([eos] if has_eos else []), *([pad] if needs_pad else [])])
        if missing := [piece for piece in needed if piece not in of_side]:
            raise VocabularyError(f"{name}: lacks {' and '.join(map(shown, missing))}.")
        if segmenter is None and merges is None and any(_SPACE in piece for piece in of_side):
            raise VocabularyError(
                f"{name}: has pieces of SentencePiece, but no SentencePiece model lies beside it. Name it with "
                "--source-spm or --target-spm."
            )
        model = None if segmenter is None else read_segmenter(segmenter)
        pad_piece = pad if pad in of_side else None
        sides.append(ForeignVocabulary(tuple(of_side), unk, eos, model, pad_piece, None if model else merges))
    source, target = sides
    return source, target


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
    """A piece that the decoder reads before its first one, such as the beginning of a sentence or a language.

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


def segmentation_remarks(source: ForeignVocabulary, target: ForeignVocabulary, text: TextSteps) -> Iterator[str]:
    """What users must know about the text of a model that does not read whole text, or does not write it."""
    of_words = [
        side
        for side, steps in ((source, text.source), (target, text.target))
        if side.segmenter is None and not any(isinstance(step, MosesTokenize) for step in steps)
    ]
    of_pieces = [side for side in of_words if side.codes is None]
    if of_pieces:
        yield "Text comes and goes as pieces separated by spaces: segment sources as in training, and join outputs."
    elif of_words:
        yield "Text comes and goes as words separated by spaces: tokenise sources as in training, and join outputs."
    if any(piece.endswith(JOINER) for side in of_pieces for piece in side.pieces):
        yield "Pieces that end with @@ are subword-nmt's: apply its codes to sources, and delete '@@ ' in outputs."


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


def read_codes(path: Path | None) -> str | None:
    """The text of a file of byte-pair codes; None without a file.

    Raises:
        VocabularyError: the file cannot be read, or is another.
    """
    if path is None:
        return None
    try:
        # A carriage return or another end of a line may be a character of a symbol.
        text = read_text(path, keep_returns=True)
    except CheckpointError as error:
        raise VocabularyError(str(error)) from None
    return BytePairCodes(text, name=str(path)).text


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
