"""A line, or a part of one, from its pieces to its translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nmt.translation.guard import Finding
from nmt.translation.results import BLANK, TranslatedText, joined
from nmt.translation.unknown_characters import Taken


@dataclass
class Segment:
    """A line, or a part of one, on its way through the search."""

    text: str
    pieces: list[int]
    before: str = ""
    """The white space between it and the part before."""
    number: int = 0
    """Its own in all of the input: what its samples derive from."""
    prefix: list[int] = field(default_factory=list)
    """What its translation begins with."""
    candidates: tuple[TranslatedText, ...] = (BLANK,)
    parts: int = 1
    """The number of parts that the first candidate was searched in."""
    is_cut: bool = False
    """Whether it, or a part that it was searched in, was cut out of text that is too long."""
    finding: Finding | None = None
    taken: Taken | None = None
    """The unknown characters that were taken out of its text, if it had any."""


def joined_segments(segments: Sequence[Segment], target_lang: str) -> tuple[TranslatedText, ...]:
    """The candidates of a line from those of its segments."""
    return joined(
        [segment.candidates for segment in segments],
        [len(segment.pieces) for segment in segments],
        [segment.before for segment in segments],
        target_lang,
    )


def findings_together(segments: Sequence[Segment]) -> Finding | None:
    """What the guard found in the segments of a line, together."""
    found = [segment.finding for segment in segments if segment.finding is not None]
    if not found:
        return None
    # Each problem once, in the order of the parts.
    kinds = dict.fromkeys(problem for finding in found for problem in finding.problems)
    return Finding(tuple(kinds), repaired=all(finding.repaired for finding in found))
