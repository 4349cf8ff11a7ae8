"""What becomes of a line: candidates, whole or joined from the parts of a long line, and what the guard found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nmt.decoding.guard import Finding
from nmt.text import is_unspaced


@dataclass(frozen=True)
class TranslatedText:
    """One translation of a line."""

    text: str
    pieces: tuple[str, ...]
    log_probability: float
    """Of all pieces and the end, in nats; of a line in parts, the sum."""
    score: float
    """What candidates are ranked by; of a line in parts, the sum."""


@dataclass(frozen=True)
class Translation:
    """What became of a line."""

    source: str
    candidates: tuple[TranslatedText, ...]
    """Best first; one empty text for a blank line."""
    parts: int = 1
    """In how many parts it was translated: more than one where it is longer than the model was trained for."""
    guard: Finding | None = None
    """What was wrong with the best candidate, if anything, and whether another took its place."""

    @property
    def text(self) -> str:
        """The best candidate."""
        return self.candidates[0].text


BLANK = TranslatedText("", (), 0.0, 0.0)


def joined(parts: Sequence[Sequence[TranslatedText]], target_lang: str) -> tuple[TranslatedText, ...]:
    """The candidates of a line from those of its parts: first with first, second with second, and so on.

    Of a part with fewer candidates its last one stands in. Texts are joined with a space, unless the target language
    is written without.
    """
    if len(parts) == 1:
        return tuple(parts[0])
    between = "" if is_unspaced(target_lang) else " "
    return tuple(
        _joined_text([candidates[min(rank, len(candidates) - 1)] for candidates in parts], between)
        for rank in range(max(map(len, parts)))
    )


def _joined_text(texts: Sequence[TranslatedText], between: str) -> TranslatedText:
    return TranslatedText(
        between.join(text.text for text in texts if text.text),
        tuple(piece for text in texts for piece in text.pieces),
        sum(text.log_probability for text in texts),
        sum(text.score for text in texts),
    )
