"""What a translator is asked and answers: a line, its segments, and these with their translations. None ever changes.

A segment is a line, or a part of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nmt.search.hypotheses import Hypothesis
from nmt.spans.kept import Covered
from nmt.spans.span import Span
from nmt.translation.guard import Finding
from nmt.translation.results import TranslatedText, joined
from nmt.translation.taking_out import Taken


@dataclass(frozen=True)
class Line:
    """A line to translate."""

    text: str
    prefix: str = ""
    """The beginning of its translation."""
    number: int = 0
    """Its place in the input, from 0. Samples depend on it."""
    name: int | None = None
    """The number by which errors name it; by default, its place from 1."""
    spans: Sequence[Span] = ()
    """Its translation is aligned if there are any, also if the options ask for no alignments. The model does not see
    what they keep if it does not copy it."""
    is_whole: bool = False
    """Whether it is not divided into sentences; a line with a prefix is not."""


@dataclass(frozen=True)
class Segment:
    """A line, or a part of one, as it is to be translated."""

    text: str
    pieces: Sequence[int]
    before: str = ""
    """The white space between this part and the previous one."""
    number: int = 0
    """Unique in the whole input; seeds the sampling."""
    line: int = 1
    """The number of its line in the input, or of the first line of its paragraph; for errors."""
    prefix: Sequence[int] = ()
    """The pieces that the translation begins with."""
    is_begun: bool = False
    """Whether the user gave the beginning of the translation."""
    is_cut: bool = False
    """Whether the segment, or a part of it that was searched alone, was cut from text longer than the limit."""
    is_aligned: bool = False
    """Whether the pieces of its translation are to be aligned."""
    covered: Covered | None = None
    """The text with stand-ins for what stays of it; None if nothing does."""
    taken: Taken | None = None
    """The unknown characters that were taken out of the text, if there were any."""
    next_tag: str = ""
    """Where the target is a pivot language: what the text for the next model begins with."""
    next_prefix: str = ""
    """Where the target is a pivot language: the beginning of the next model's translation."""


@dataclass(frozen=True)
class TranslatedSegment:
    """A segment with its translations."""

    segment: Segment
    """As it was searched."""
    candidates: tuple[TranslatedText, ...]
    """Best first; one empty text if the segment has no pieces."""
    others: tuple[Hypothesis, ...] = ()
    """What the search has finished beside the candidates, best first."""
    parts: int = 1
    """The number of parts that the first candidate was searched in."""
    finding: Finding | None = None
    onward: tuple[TranslatedSegment, ...] = ()
    """Where the target is a pivot language: the parts of the first candidate, translated on."""

    @property
    def has_lost(self) -> bool:
        """Whether the first candidate lacks something that stays and that the model saw."""
        covered = self.segment.covered
        return covered is not None and not covered.is_kept(self.segment.text, self.candidates[0].text)


def joined_candidates(parts: Sequence[TranslatedSegment], target_lang: str) -> tuple[TranslatedText, ...]:
    """The candidates of a line, joined from those of its segments."""
    return joined(
        [part.candidates for part in parts],
        [len(part.segment.pieces) for part in parts],
        [part.segment.before for part in parts],
        target_lang,
    )


def joined_findings(findings: Iterable[Finding | None]) -> Finding | None:
    """What the guard found in all parts of a line, as one finding."""
    found = [finding for finding in findings if finding is not None]
    if not found:
        return None
    # Each problem once, in the order of the parts.
    kinds = dict.fromkeys(problem for finding in found for problem in finding.problems)
    return Finding(tuple(kinds), repaired=all(finding.repaired for finding in found))
