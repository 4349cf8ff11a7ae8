"""What becomes of a line: candidates, whole or joined from the parts of a long line, and what the guard found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from nmt.text import is_unspaced
from nmt.translation.guard import Finding


@dataclass(frozen=True)
class TranslatedText:
    """One translation of a line."""

    text: str
    pieces: tuple[str, ...]
    log_probability: float
    """Of all pieces and the end, in nats; of a line in parts, the sum."""
    score: float
    """The log-probability over the length penalty; of a line in parts, the sum."""
    expected_utility: float | None = None
    """How good it is by minimum Bayes risk, and then what candidates are ranked by; of a line in parts, the mean. None
    where it was not asked for, or the guard's second search found the text."""
    piece_log_probabilities: tuple[float, ...] | None = None
    """Of each piece given those before it, and of the end; of a line in parts, of each part's end. None where they were
    not asked for."""
    alignment: tuple[int | None, ...] | None = None
    """For each piece the index of the source piece that it looks at most, None for the end of the source; None where
    it was not asked for."""

    def __repr__(self) -> str:
        return f"TranslatedText({self.text!r}, score={self.score:.3f})"


@dataclass(frozen=True)
class Translation:
    """What became of a line."""

    source: str
    candidates: tuple[TranslatedText, ...]
    """Best first; one empty text for a blank line."""
    source_pieces: tuple[str, ...] = ()
    """As the model reads the line; of all parts."""
    parts: int = 1
    """The number of parts that were translated one by one: more than one where the line holds more, or more sentences,
    than the model was trained for."""
    is_cut: bool = False
    """Whether some of these parts are parts of a sentence: the line, or a sentence in it, has more pieces than the
    maximum."""
    guard: Finding | None = None
    """What was wrong with the best candidate, if anything, and whether another took its place."""

    @property
    def text(self) -> str:
        """The best candidate."""
        return self.candidates[0].text

    def __repr__(self) -> str:
        facts = [f"{self.source!r} -> {self.text!r}"]
        if len(self.candidates) > 1:
            facts.append(f"{len(self.candidates)} candidates")
        if self.parts > 1:
            facts.append(f"{self.parts} parts")
        if self.guard is not None:
            facts.append(repr(self.guard))
        return f"Translation({', '.join(facts)})"


BLANK = TranslatedText("", (), 0.0, 0.0)


def joined(
    parts: Sequence[Sequence[TranslatedText]], source_lengths: Sequence[int], befores: Sequence[str], target_lang: str
) -> tuple[TranslatedText, ...]:
    """The candidates of a line from those of its parts: first with first, second with second, and so on.

    Of a part with fewer candidates its last one stands in. Texts are joined with the white space of the source, unless
    the target language is written without.

    Args:
        source_lengths: how many source pieces each part has.
        befores: the white space in front of each part.
    """
    if len(parts) == 1:
        return tuple(parts[0])
    if is_unspaced(target_lang):
        befores = [""] * len(parts)
    return tuple(
        _joined_text([candidates[min(rank, len(candidates) - 1)] for candidates in parts], source_lengths, befores)
        for rank in range(max(map(len, parts)))
    )


def _joined_text(
    texts: Sequence[TranslatedText], source_lengths: Sequence[int], befores: Sequence[str]
) -> TranslatedText:
    utilities = [text.expected_utility for text in texts if text.expected_utility is not None]
    by_piece = [text.piece_log_probabilities for text in texts if text.piece_log_probabilities is not None]
    begins = itertools.accumulate(source_lengths, initial=0)
    alignments = [
        tuple(None if index is None else begin + index for index in text.alignment)
        for begin, text in zip(begins, texts, strict=False)
        if text.alignment is not None
    ]
    return TranslatedText(
        _joined_words([text.text for text in texts], befores),
        tuple(piece for text in texts for piece in text.pieces),
        sum(text.log_probability for text in texts),
        sum(text.score for text in texts),
        sum(utilities) / len(utilities) if utilities else None,
        tuple(itertools.chain.from_iterable(by_piece)) if len(by_piece) == len(texts) else None,
        tuple(itertools.chain.from_iterable(alignments)) if len(alignments) == len(texts) else None,
    )


def _joined_words(texts: Sequence[str], befores: Sequence[str]) -> str:
    line = ""
    for text, before in zip(texts, befores, strict=True):
        if text:
            line += before + text if line else text
    return line


def one_line(text: str) -> str:
    """The text with spaces for line ends, which a piece of a vocabulary without normalisation may hold."""
    return text.replace("\n", " ").replace("\r", " ")
