"""A model as the certificate sees it: text becomes pieces, pieces get probabilities. Each toolkit is one such side.

Sides speak of pieces, not of ids, so that a wrong order of the vocabulary shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sentencepiece import SentencePieceProcessor

SPACE = "▁"
"""How SentencePiece spells a space."""
_TAG = re.compile(r">>[\w-]+<<")
"""A language tag, such as ``>>deu<<``."""
Language = Literal["source", "target"]
Pieces = Sequence[str]
Floats = NDArray[np.float64]
SEARCHED_AT_ONCE = 16
"""The number of sources in a batch: the logits of a batch lie in memory together."""


def log_softmax(logits_TV: Floats) -> Floats:
    """Log-probabilities of the same shape."""
    shifted_TV = logits_TV - logits_TV.max(axis=-1, keepdims=True)
    found: Floats = shifted_TV - np.log(np.exp(shifted_TV).sum(axis=-1, keepdims=True))
    return found


@dataclass(frozen=True)
class Hypothesis:
    """An output, without eos."""

    pieces: tuple[str, ...]
    log_probability: float
    """The sum over its pieces and eos; of a hypothesis that was cut off, over its pieces."""
    is_complete: bool = True
    """Whether it ends with eos; False if it was cut off."""


def has_tags(pieces: Iterable[str]) -> bool:
    """Whether a vocabulary has language tags."""
    return any(map(_TAG.fullmatch, pieces))


def split_tag(line: str) -> tuple[list[str], str]:
    """The language tag that a line begins with, if there is one, and the rest of the line."""
    tag = _TAG.match(line)
    return ([], line) if tag is None else ([tag[0]], line[tag.end() :])


class Segmenter:
    """A SentencePiece model and the pieces of a vocabulary, used as users of another toolkit use them."""

    def __init__(self, model: bytes, pieces: Iterable[str]) -> None:
        """Open a model.

        Raises:
            RuntimeError: the bytes are not a SentencePiece model.
        """
        self._processor = SentencePieceProcessor(model_proto=model)
        self._has_tags = has_tags(pieces)

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line. A tag at its beginning is one of them, if the vocabulary has tags."""
        tag, rest = split_tag(line) if self._has_tags else ([], line)
        return [*tag, *self._processor.encode(rest, out_type=str)]

    def text(self, pieces: Pieces) -> str:
        """The text of pieces, some of which the SentencePiece model may lack."""
        text: str = self._processor.decode(list(pieces))
        return text.replace(SPACE, " ")


class Side:
    """A model that can be compared with another one. All pieces are without eos.

    A side overrides what it takes part in; None leaves a comparison out.
    """

    name: str
    """What computes: ``Marian``, ``NumPy in float64``."""
    software: Mapping[str, str]
    """Package -> version."""
    max_searches = 1_000
    """The number of sources that it searches within seconds."""

    def prepared(self, lines: Sequence[str], language: Language) -> list[str] | None:
        """What lines become before they are segmented; None if the side takes them as they are."""
        return None

    def segment(self, lines: Sequence[str], language: Language) -> list[list[str]] | None:
        """The pieces of lines, with the unknown piece for those that the model lacks; None if it reads pieces only."""
        return None

    def text(self, pieces: Sequence[Pieces]) -> list[str] | None:
        """The text of target pieces; None if the side writes pieces only."""
        return None

    def states(self, sources: Sequence[Pieces]) -> list[Floats] | None:
        """The encoder's states (S, D) of each source; None if the side does not show them.

        The last state is that of eos, if the model reads it.
        """
        return None

    def score(self, sources: Sequence[Pieces], targets: Sequence[Pieces]) -> list[Floats] | None:
        """The log-probability of each piece of each target, and of eos; None if the side scores no given targets."""
        return None

    def search(self, sources: Sequence[Pieces], beam: int, max_length: int) -> list[list[Hypothesis]] | None:
        """The best hypotheses of each source, by their log-probability; None if the side does not search.

        Args:
            max_length: maximum pieces of a hypothesis, without eos.
        """
        return None
