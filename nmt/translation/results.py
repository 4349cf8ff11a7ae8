"""The translation of a line: its candidates (joined from parts if the line was split) and the guard's finding."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nmt.spans.links import Link, links, through
from nmt.spans.placing import place
from nmt.spans.span import Unit
from nmt.spans.terms import TermFinding
from nmt.text.languages import is_full_width
from nmt.translation.guard import Finding


@dataclass(frozen=True)
class TranslatedText:
    """One translation of a line."""

    text: str
    pieces: tuple[str, ...]
    log_probability: float
    """The log-probability of all pieces and eos, in nats; summed over the parts of a split line."""
    score: float
    """The log-probability divided by the length penalty; summed over the parts of a split line."""
    expected_utility: float | None = None
    """The expected utility of minimum Bayes risk, by which candidates are then ranked; averaged over the parts of a
    split line. None if not requested, or if the guard's second search found the text."""
    piece_log_probabilities: tuple[float, ...] | None = None
    """The log-probability of each piece given the pieces before it, then that of eos. In a split line, each part has an
    eos. None if not requested."""
    alignment: tuple[int | None, ...] | None = None
    """For each piece, the index of the source piece that it comes from; None stands for the source's eos. The
    attribute itself is None if not requested."""
    links: tuple[Link, ...] | None = None
    """Which characters come from which of the source, if terms of a glossary changed the text; None if the alignment
    says so."""
    terms: tuple[TermFinding, ...] = ()
    """What became of the terms of a glossary."""

    def __repr__(self) -> str:
        return f"TranslatedText({self.text!r}, score={self.score:.3f})"


@dataclass(frozen=True)
class Translation:
    """The translation of a line."""

    source: str
    candidates: tuple[TranslatedText, ...]
    """Best first; one empty text for a blank line."""
    source_pieces: tuple[str, ...] = ()
    """The pieces of the normalised line, all parts together."""
    parts: int = 1
    """The number of parts that were translated separately: more than one if the line is longer, or has more sentences,
    than the model was trained for."""
    is_cut: bool = False
    """Whether a sentence was cut into parts, because it has more pieces than the maximum."""
    guard: Finding | None = None
    """The problems of the best candidate, if any, and whether another candidate replaced it. Through a pivot language:
    those of both translations."""
    via: Translation | None = None
    """The translation into the pivot language that was translated on; None if there is no such language."""
    onward_pieces: tuple[str, ...] = ()
    """The pieces of that translation as the last model read them."""

    def ranked(self, rank: int) -> TranslatedText:
        """A candidate by its number from 0, or the last if there are fewer."""
        return self.candidates[min(rank, len(self.candidates) - 1)]

    def links(self, rank: int = 0) -> list[Link]:
        """Which characters of a candidate come from which of the source; empty without an alignment."""
        best = self.ranked(rank)
        if best.links is not None:
            return list(best.links)
        if best.alignment is None:
            return []
        if self.via is None:
            return links(self.source, self.source_pieces, best.text, best.pieces, best.alignment)
        onward = links(self.via.text, self.onward_pieces, best.text, best.pieces, best.alignment)
        return through(self.via.links(), onward)

    def placed(self, unit: Unit, escape: Callable[[str], str], rank: int = 0) -> str:
        """A candidate as :func:`nmt.spans.placing.place` marks it up: with the spans of what was translated."""
        return place(unit, self.ranked(rank).text, self.links(rank), escape)

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
    """Join the candidates of a line's parts: the first with the first, the second with the second, and so on.

    A part with fewer candidates repeats its last one. Texts are joined with the white space of the source, unless the
    target language has none between sentences.

    Args:
        source_lengths: the number of source pieces of each part.
        befores: the white space before each part.
    """
    if len(parts) == 1:
        return tuple(parts[0])
    if is_full_width(target_lang):
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
