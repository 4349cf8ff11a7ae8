"""A text to translate, with spans: markup around some of its characters, and characters that are not translated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """Some characters of a unit's text."""

    start: int
    end: int
    before: str = ""
    after: str = ""
    """Markup that stands before and behind what the span holds. A void tag: ``start == end``, ``before="<br>"``."""
    text: str | None = None
    """What stands in the output for the characters; None if they are translated."""


@dataclass(frozen=True)
class Unit:
    """A text to translate."""

    text: str
    spans: tuple[Span, ...] = ()
    """They nest or are disjoint, in order."""

    @property
    def task(self) -> Unit:
        """What a translator needs of it: where spans keep something, or a span around all if there are others."""
        kept = tuple(Span(span.start, span.end, text="") for span in self.spans if span.text is not None)
        return Unit(self.text, kept or (Span(0, len(self.text)),) * bool(self.spans))
