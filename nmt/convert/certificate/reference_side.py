"""The other toolkit's model as one side of a comparison, computed independently of the toolkit and of us."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.convert.certificate.side import SPACE, Floats, Hypothesis, Language, Pieces, Segmenter, Side
from nmt.convert.foreign import ForeignModel, ForeignVocabulary
from nmt.convert.reference import Reference
from nmt.convert.vocabulary import piece_names

_OTHER_SPACE = re.compile(r"[^\S ]")
"""White space that a piece may hold where spaces alone separate pieces."""
_MAX_OUTPUT = 20
"""Maximum pieces of a searched output: each step decodes the whole of it again."""
_UNKNOWN = "⁇"
"""How SentencePiece spells the unknown piece."""


class ReferenceSide(Side):
    """A foreign model in float64 with NumPy, segmented by its own SentencePiece models as they are."""

    max_searches = 6
    """Each step decodes the whole output again."""

    def __init__(self, model: ForeignModel, *, features_D: NDArray[np.int64] | None = None) -> None:
        """Prepare to compute.

        Args:
            features_D: for each of our features, its place in the model's states; None where the order is the same.
        """
        self.name = f"{model.toolkit}'s tensors in float64 with NumPy"
        self.software = {"numpy": np.__version__}
        self._features_D = slice(None) if features_D is None else features_D
        self._model, self._reference = model, Reference(model)
        self._last: tuple[tuple[str, ...], Floats] | None = None
        self._source_names, self._target_names = (
            piece_names(vocabulary, model.start) for vocabulary in (model.source, model.target)
        )
        self._source_pieces, self._target_pieces = (
            {ours: theirs for theirs, ours in names.items()} for names in (self._source_names, self._target_names)
        )
        self._segmenters = {
            vocabulary: None if vocabulary.segmenter is None else Segmenter(vocabulary.segmenter, vocabulary.pieces)
            for vocabulary in (model.source, model.target)
        }

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]]:
        """As :meth:`Side.segment`."""
        vocabulary = self._model.source if language == "source" else self._model.target
        names = self._source_names if language == "source" else self._target_names
        unknown = names[vocabulary.unk]
        return [[names.get(piece, unknown) for piece in self._pieces(line, vocabulary)] for line in lines]

    def _pieces(self, line: str, vocabulary: ForeignVocabulary) -> list[str]:
        if (segmenter := self._segmenters[vocabulary]) is not None:
            return segmenter.pieces(line)
        is_at_spaces = _OTHER_SPACE.search("".join(vocabulary.pieces)) is not None
        return [word for word in line.split(" " if is_at_spaces else None) if word]

    def text(self, pieces: Sequence[Pieces]) -> list[str]:
        """As :meth:`Side.text`."""
        if (segmenter := self._segmenters[self._model.target]) is not None:
            return [segmenter.text(row) for row in pieces]
        return [
            "".join(f" {_UNKNOWN} " if piece == "<unk>" else piece.replace(SPACE, " ") for piece in row)
            for row in pieces
        ]

    def states(self, sources: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.states`."""
        return [self._encoded(tuple(source))[:, self._features_D] for source in sources]

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats]:
        """As :meth:`Side.score`."""
        ids = {piece: index for index, piece in enumerate(self._model.target.pieces)}
        scores = []
        for source, target in zip(sources, targets, strict=True):
            theirs = [self._target_pieces[piece] for piece in target]
            table_TV = self._reference.decode(theirs, self._encoded(tuple(source)))
            wanted_T = [ids[piece] for piece in (*theirs, self._model.target.eos)]
            scores.append(table_TV[np.arange(len(wanted_T)), wanted_T])
        return scores

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]] | None:
        """As :meth:`Side.search`; greedy only, and cut off early."""
        limit = min(max_length, _MAX_OUTPUT)
        return [[self._greedy(source, limit)] for source in sources] if beam == 1 else None

    def _greedy(self, source: Pieces, max_length: int) -> Hypothesis:
        pieces, vocabulary, total = self._model.target.pieces, self._model.target, 0.0
        never = [pieces.index(piece) for piece in self._never_emitted()]
        memory_SD, written = self._encoded(tuple(source)), list[str]()
        while len(written) < max_length:
            next_V = self._reference.decode(written, memory_SD)[-1]
            next_V[never] = -np.inf
            best = int(next_V.argmax())
            total += float(next_V[best])
            if pieces[best] == vocabulary.eos:
                return Hypothesis(self._names_of(written), total)
            written.append(pieces[best])
        return Hypothesis(self._names_of(written), total, is_complete=False)

    def _names_of(self, pieces: Pieces) -> tuple[str, ...]:
        return tuple(self._target_names[piece] for piece in pieces)

    def _encoded(self, source: tuple[str, ...]) -> Floats:
        """The encoder's states of a source; several hypotheses of it are scored one after the other."""
        if self._last is None or self._last[0] != source:
            self._last = source, self._reference.encode([self._source_pieces[piece] for piece in source])
        return self._last[1]

    def _never_emitted(self) -> set[str]:
        vocabulary = self._model.target
        special = {vocabulary.unk, vocabulary.pad, self._model.start} - {None, vocabulary.eos}
        return {piece for piece in special if piece is not None}
