"""CTranslate2 itself as one side of a comparison: an exported folder, opened as its users open it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.side import SEARCHED_AT_ONCE, Floats, Hypothesis, Language, Pieces, Segmenter, Side
from nmt.convert.ctranslate2.reading import model_folder
from nmt.convert.ctranslate2.searcher import NEVER_EMITTED
from nmt.convert.exported_files import SOURCE_MODEL, TARGET_MODEL, is_of_sentencepiece, stored_pieces
from nmt.convert.files import EXPORT_AGAIN, read_bytes
from nmt.convert.foreign import ForeignModel
from nmt.convert.vocabulary import piece_names
from nmt.data.shard_index import SIDES
from nmt.data.vocab import SPECIAL_PIECES, Vocabulary
from nmt.errors import CheckpointError

_AGAIN = "Export or copy the model again."
_UNK = SPECIAL_PIECES[Vocabulary.UNK]


class CTranslate2Side(Side):
    """CTranslate2 on the CPU, in the type of the stored weights where the processor has it."""

    def __init__(
        self,
        folder: Path,
        models: tuple[Path, Path] | None,
        max_positions: int,
        compute_type: str = "default",
        names: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
        silent: Collection[str] = (),
        end: Sequence[str] = (),
    ) -> None:
        """Open a model.

        Args:
            folder: the folder with ``model.bin``.
            models: the SentencePiece models of source and target; None if the side reads and writes pieces only.
            max_positions: that of the model. CTranslate2 fails where an output needs more.
            names: what pieces of source and target are called in our vocabulary, if otherwise.
            silent: target pieces that are no text.
            end: what users of the model add to the pieces of a source.

        Raises:
            ImportError: CTranslate2 is not installed.
            CheckpointError: a file is missing or damaged.
        """
        import ctranslate2

        level = ctranslate2.get_log_level()
        ctranslate2.set_log_level(logging.ERROR)  # it warns where the processor lacks the type of the weights
        try:
            self._translator: Any = ctranslate2.Translator(str(folder), compute_type=compute_type)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(f"{folder}: CTranslate2 cannot open it ({error}). {_AGAIN}") from None
        finally:
            ctranslate2.set_log_level(level)
        self._max_positions, self._target_names, self._silent, self._end = max_positions, names[1], silent, end
        self._source_pieces, self._target_pieces = ({ours: theirs for theirs, ours in side.items()} for side in names)
        never = [self._target_pieces.get(piece) if names[1] else piece for [piece] in NEVER_EMITTED]
        self._never = [[piece] for piece in never if piece is not None]
        self._known = dict(zip(SIDES, map(frozenset, stored_pieces(folder)), strict=True)) if models else {}
        self._segmenters = {
            side: _segmenter(model, self._known[side]) for side, model in zip(SIDES, models or (), strict=False)
        }
        self.software = {
            name: metadata.version(name) for name in ("ctranslate2", *(["sentencepiece"] if models else []))
        }
        self.name = f"CTranslate2 {self.software['ctranslate2']} ({self._translator.compute_type})"

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]] | None:
        """As :meth:`Side.segment`."""
        if not self._segmenters:
            return None
        known, segmenter = self._known[language], self._segmenters[language]
        return [[piece if piece in known else _UNK for piece in segmenter.pieces(line)] for line in lines]

    def text(self, pieces: Sequence[Pieces]) -> list[str] | None:
        """As :meth:`Side.text`."""
        if not self._segmenters:
            return None
        return [self._segmenters["target"].text([one for one in row if one not in self._silent]) for row in pieces]

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        # One sentence at a time: the logits of a batch lie in memory together.
        results = self._translator.score_batch(
            self._sources(sources),
            _renamed(targets, self._target_pieces),
            max_input_length=0,
            max_batch_size=1,
        )
        return [np.array(result.log_probs, np.float64) for result in results]

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]]:
        """As :meth:`Side.search`."""
        longest = min(max_length, self._max_positions - 1)
        results = self._translator.translate_batch(
            self._sources(sources),
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=0,
            return_scores=True,
            max_input_length=0,
            max_decoding_length=longest + 1,  # eos counts
            min_decoding_length=0,  # by default 1: outputs without pieces would be passed over
            max_batch_size=SEARCHED_AT_ONCE,
            disable_unk=True,
            suppress_sequences=self._never,
        )
        return [
            [
                Hypothesis(tuple(pieces[:longest]), score, is_complete=len(pieces) <= longest)
                for pieces, score in zip(_renamed(result.hypotheses, self._target_names), result.scores, strict=True)
            ]
            for result in results
        ]

    def _sources(self, sources: Sequence[Pieces]) -> list[list[str]]:
        return [[*pieces, *self._end] for pieces in _renamed(sources, self._source_pieces)]


def _segmenter(path: Path, pieces: Iterable[str]) -> Segmenter:
    try:
        return Segmenter(read_bytes(path, EXPORT_AGAIN), pieces)
    except RuntimeError:
        raise CheckpointError(f"{path}: is not a SentencePiece model. {EXPORT_AGAIN}") from None


def _renamed(rows: Sequence[Pieces], names: Mapping[str, str]) -> list[list[str]]:
    return [[names.get(piece, piece) for piece in row] for row in rows]


def imported_side(path: Path, model: ForeignModel) -> CTranslate2Side:
    """CTranslate2 with a model that was imported, in fp32 with the stored weights. It reads and writes pieces only.

    Raises:
        ImportError, CheckpointError: as for :class:`CTranslate2Side`.
    """
    names = piece_names(model.source, model.start), piece_names(model.target, model.start)
    end = [model.source.eos] if model.config.source_eos and not model.settings.get("add_source_eos") else []
    return CTranslate2Side(model_folder(path), None, model.config.max_positions, "float32", names, end=end)


def ctranslate2_sides(folder: Path, bundle: Bundle) -> Iterator[Side]:
    """As :attr:`Format.sides`."""
    models = (folder / SOURCE_MODEL, folder / TARGET_MODEL) if is_of_sentencepiece(bundle) else None
    yield CTranslate2Side(folder, models, bundle.config.model.max_positions, silent=bundle.vocab.target.silent)
