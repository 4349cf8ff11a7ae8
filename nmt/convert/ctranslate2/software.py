"""CTranslate2 itself as one side of a comparison: an exported folder, opened as its users open it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from nmt.checkpoint.bundle import Bundle
from nmt.convert.certificate.side import Floats, Hypothesis, Pieces, Side
from nmt.convert.ctranslate2.engine import NEVER_EMITTED
from nmt.convert.ctranslate2.reading import model_folder
from nmt.convert.ctranslate2.writing import vocabularies
from nmt.convert.exported_files import SOURCE_MODEL, TARGET_MODEL, SegmentingSide
from nmt.convert.foreign import ForeignModel
from nmt.convert.vocabulary import piece_names
from nmt.errors import CheckpointError

_SEARCHED_AT_ONCE = 16
_AGAIN = "Export or copy the model again."


class CTranslate2Side(SegmentingSide):
    """CTranslate2 on the CPU, in the type of the stored weights where the processor has it."""

    def __init__(
        self, folder: Path, models: tuple[Path, Path] | None, max_positions: int, compute_type: str = "default"
    ) -> None:
        """Open a model.

        Args:
            folder: the folder with ``model.bin``.
            models: the SentencePiece models of source and target; None if the side reads and writes pieces only.
            max_positions: that of the model. CTranslate2 fails where an output needs more.

        Raises:
            ImportError: CTranslate2 is not installed.
            CheckpointError: a file is missing or damaged.
        """
        import ctranslate2

        try:
            self._translator: Any = ctranslate2.Translator(str(folder), compute_type=compute_type)
        except (RuntimeError, ValueError) as error:
            raise CheckpointError(f"{folder}: CTranslate2 cannot open it ({error}). {_AGAIN}") from None
        self._max_positions = max_positions
        super().__init__("ctranslate2", models, vocabularies(folder) if models else ((), ()))
        self.name = f"CTranslate2 {metadata.version('ctranslate2')} ({self._translator.compute_type})"

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        # One sentence at a time: the logits of a batch lie in memory together.
        results = self._translator.score_batch(
            [list(source) for source in sources],
            [list(target) for target in targets],
            max_input_length=0,
            max_batch_size=1,
        )
        return [np.array(result.log_probs, np.float64) for result in results]

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]]:
        """As :meth:`Side.search`."""
        longest = min(max_length, self._max_positions - 1)
        results = self._translator.translate_batch(
            [list(source) for source in sources],
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=0,
            return_scores=True,
            max_input_length=0,
            max_decoding_length=longest + 1,  # eos counts
            min_decoding_length=0,  # by default 1: outputs without pieces would be passed over
            max_batch_size=_SEARCHED_AT_ONCE,
            disable_unk=True,
            suppress_sequences=NEVER_EMITTED,
        )
        return [
            [
                Hypothesis(tuple(pieces[:longest]), score, is_complete=len(pieces) <= longest)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]


class ImportedSide(CTranslate2Side):
    """CTranslate2 with a model that was imported, in fp32 with the stored weights. It reads and writes pieces only."""

    def __init__(self, path: Path, model: ForeignModel) -> None:
        """Open a model.

        Raises:
            ImportError: CTranslate2 is not installed.
            CheckpointError: a file is missing or damaged.
        """
        super().__init__(model_folder(path), None, model.config.max_positions, "float32")
        self._target_names = piece_names(model.target, model.start)
        self._target_pieces = {ours: theirs for theirs, ours in self._target_names.items()}
        self._source_pieces = {ours: theirs for theirs, ours in piece_names(model.source, model.start).items()}

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        return super().score(self._theirs(sources), [[self._target_pieces[piece] for piece in row] for row in targets])

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]]:
        """As :meth:`Side.search`."""
        return [
            [replace(one, pieces=tuple(self._target_names[piece] for piece in one.pieces)) for one in hypotheses]
            for hypotheses in super().search(self._theirs(sources), beam, max_length)
        ]

    def _theirs(self, sources: Sequence[Pieces]) -> list[list[str]]:
        return [[self._source_pieces[piece] for piece in source] for source in sources]


def ctranslate2_sides(folder: Path, bundle: Bundle) -> Iterator[Side]:
    """As :attr:`Format.sides`."""
    yield CTranslate2Side(folder, (folder / SOURCE_MODEL, folder / TARGET_MODEL), bundle.config.model.max_positions)
