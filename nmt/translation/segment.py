"""A line, or a part of one, from its pieces to its translations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nmt.search.hypotheses import Hypothesis
from nmt.spans.kept import Covered
from nmt.translation.guard import Finding
from nmt.translation.results import BLANK, TranslatedText, joined
from nmt.translation.taking_out import Taken


@dataclass
class Segment:
    """A line, or a part of one, with its translations so far."""

    text: str
    pieces: list[int]
    before: str = ""
    """The white space between this part and the previous one."""
    number: int = 0
    """Unique in the whole input; seeds the sampling."""
    line: int = 1
    """The number of its line in the input, or of the first line of its paragraph; for errors."""
    prefix: list[int] = field(default_factory=list)
    """The pieces that the translation begins with."""
    candidates: tuple[TranslatedText, ...] = (BLANK,)
    others: tuple[Hypothesis, ...] = ()
    """What the search has finished beside the candidates, best first."""
    parts: int = 1
    """The number of parts that the first candidate was searched in."""
    is_cut: bool = False
    """Whether the segment, or a part of it that was searched alone, was cut from text longer than the limit."""
    finding: Finding | None = None
    is_aligned: bool = False
    """Whether the pieces of its translation are to be aligned."""
    is_searched: bool = False
    """Whether its translations are found."""
    covered: Covered | None = None
    """The text with stand-ins for what stays of it; None if nothing does."""
    taken: Taken | None = None
    """The unknown characters that were taken out of the text, if there were any."""
    onward: Onward | None = None
    """How the first candidate is translated on, where that is the pivot language."""

    @property
    def has_stand_ins(self) -> bool:
        """Whether the text has stand-ins, which are to be taken out."""
        return self.covered is not None and not self.covered.characters.isdisjoint(self.text)

    @property
    def has_lost(self) -> bool:
        """Whether the first candidate lacks something that stays and that the model saw."""
        return self.covered is not None and not self.covered.is_kept(self.text, self.candidates[0].text)

    def cover(self) -> None:
        """Replace what stays by its stand-ins again, and forget what was found."""
        if self.covered is not None:
            self.text, self.candidates, self.others = self.covered.text, (BLANK,), ()


@dataclass
class Onward:
    """The translation of a segment into the pivot language, as the source of the next model."""

    tag: str = ""
    """The tag that names the target language, with a space; empty for most models."""
    prefix: str = ""
    """The beginning of the next translation."""
    segments: list[Segment] = field(default_factory=list)
    """Its segments; empty before it is searched."""


def joined_segments(segments: Sequence[Segment], target_lang: str) -> tuple[TranslatedText, ...]:
    """The candidates of a line, joined from those of its segments."""
    return joined(
        [segment.candidates for segment in segments],
        [len(segment.pieces) for segment in segments],
        [segment.before for segment in segments],
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
