"""The SentencePiece models in an exported folder: as SentencePiece writes them, so that its users need nothing of ours.

Text becomes pieces by SentencePiece alone, and pieces become ids by the list of pieces: a piece that is not in the list
is unknown. That is also how pieces come about that only the translation model has, or only its SentencePiece model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.record import Check
from nmt.convert.certificate.side import Language, Pieces, Side
from nmt.convert.exported_files import EXPORT_AGAIN, file_check, read_bytes, read_json
from nmt.data.imported_vocab import LANGUAGE_TAG
from nmt.data.shards import SIDES
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.data.vocab_pair import VocabularyPair
from nmt.errors import CheckpointError
from nmt.io.writing import write_file

SOURCE_MODEL, TARGET_MODEL = "source.spm", "target.spm"
_SPACE = "▁"
_UNK = SPECIAL_PIECES[Vocabulary.UNK]


def has_plain_ids(vocab: Vocabulary) -> bool:
    """Whether the ids of the SentencePiece model are those of the translation model."""
    return vocab.pieces_json is None


def pieces_of(vocab: Vocabulary) -> list[str]:
    """All pieces of one side, by id."""
    return vocab.pieces(range(vocab.size))


def write_segmenters(vocab: VocabularyPair, folder: Path) -> None:
    """Write the SentencePiece models of both sides.

    Raises:
        WriteError: a file could not be written.
    """
    write_file(folder / SOURCE_MODEL, vocab.source.model_bytes)
    write_file(folder / TARGET_MODEL, vocab.target.model_bytes)


def segmenter_files(folder: Path) -> dict[Language, Path]:
    """The SentencePiece models of an exported folder, as :func:`write_segmenters` wrote them."""
    return {"source": folder / SOURCE_MODEL, "target": folder / TARGET_MODEL}


class Segmenters:
    """The SentencePiece models of an exported folder, used as its users use them."""

    def __init__(
        self, files: Mapping[Language, Path], source_pieces: Sequence[str], target_pieces: Sequence[str]
    ) -> None:
        """Read the models.

        Args:
            files: the SentencePiece model of each language.
            source_pieces, target_pieces: the pieces that the model knows.

        Raises:
            CheckpointError: a model is missing or damaged.
        """
        self._processors = {language: _processor(path) for language, path in files.items()}
        self._known: dict[Language, frozenset[str]] = {
            "source": frozenset(source_pieces),
            "target": frozenset(target_pieces),
        }

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]]:
        """As :meth:`Side.segment`."""
        known = self._known[language]
        return [[piece if piece in known else _UNK for piece in self._pieces(line, language)] for line in lines]

    def text(self, pieces: Sequence[Pieces]) -> list[str]:
        """As :meth:`Side.text`."""
        decoded = (self._processors["target"].decode(list(row)) for row in pieces)
        return [text.replace(_SPACE, " ").replace("\n", " ") for text in decoded]

    def _pieces(self, line: str, language: Language) -> list[str]:
        tag = LANGUAGE_TAG.match(line)
        if tag is None or not any(map(LANGUAGE_TAG.fullmatch, self._known[language])):
            pieces: list[str] = self._processors[language].encode(line, out_type=str)
            return pieces
        return [tag[0], *self._processors[language].encode(line[tag.end() :], out_type=str)]


class SegmentingSide(Side):
    """The part of a side that is the same for every exported folder with SentencePiece models."""

    def __init__(self, package: str, segmenters: Segmenters | None) -> None:
        """Take the package that computes, and the models; None if it reads and writes pieces only."""
        self.software = {name: metadata.version(name) for name in (package, *(["sentencepiece"] if segmenters else []))}
        self._segmenters = segmenters

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]] | None:
        """As :meth:`Side.segment`."""
        return None if self._segmenters is None else self._segmenters.segment(lines, language)

    def text(self, pieces: Sequence[Pieces]) -> list[str] | None:
        """As :meth:`Side.text`."""
        return None if self._segmenters is None else self._segmenters.text(pieces)


def _processor(path: Path) -> SentencePieceProcessor:
    try:
        return SentencePieceProcessor(model_proto=path.read_bytes())
    except (OSError, RuntimeError):
        raise CheckpointError(f"{path}: is not a SentencePiece model. Export the model again.") from None


def read_pieces_list(path: Path, advice: str = EXPORT_AGAIN) -> list[str]:
    """The pieces of a JSON file, by id.

    Args:
        advice: what to do about a damaged file, as a sentence.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    pieces = read_json(path, advice)
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise CheckpointError(f"{path}: is not a list of pieces. {advice}")
    return pieces


def spm_pieces(path: Path) -> list[str]:
    """The pieces of a SentencePiece model, by its ids.

    Raises:
        CheckpointError: the file is missing or damaged.
    """
    processor = _processor(path)
    pieces: list[str] = processor.id_to_piece(list(range(processor.get_piece_size())))
    return pieces


def check_vocabulary(found: tuple[Sequence[str], Sequence[str]], bundle: Bundle) -> Check:
    """Compare the source and target pieces of an exported folder with those of its bundle."""
    differing, total = [], 0
    for side, pieces in zip(SIDES, found, strict=True):
        wanted = pieces_of(bundle.vocab.of(side))
        total += len(wanted)
        if len(pieces) != len(wanted):
            differing.append(f"{len(pieces):,} {side} pieces")
        differing += [f"{side} piece {a!r}" for a, b in zip(pieces, wanted, strict=False) if a != b]
    return file_check("vocabulary", differing, f"{total:,} pieces have the bundle's ids")


def check_segmenters(folder: Path, bundle: Bundle) -> Check:
    """Compare the SentencePiece models of an exported folder with those of its bundle."""
    vocab = bundle.vocab
    wanted = {SOURCE_MODEL: vocab.source.model_bytes, TARGET_MODEL: vocab.target.model_bytes}
    differing = [name for name, model in wanted.items() if read_bytes(folder / name) != model]
    return file_check("segmenters", differing, "both SentencePiece models are the bundle's")
