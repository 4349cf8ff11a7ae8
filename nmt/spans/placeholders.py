"""Placeholders and web addresses of a text: they stand in its translation as they are."""

from __future__ import annotations

from nmt.spans.span import Span, Unit
from nmt.text.verbatim import may_be_in, spans


def with_placeholders(unit: Unit) -> Unit:
    """A unit with a span for each placeholder and web address that no other span crosses or keeps."""
    if not may_be_in(unit.text):
        return unit
    found: list[Span] = []
    end = 0
    for start, stop in sorted(spans(unit.text)):
        if start >= end and not any(_cross(span, start, stop) for span in unit.spans):
            found.append(Span(start, stop, text=unit.text[start:stop]))
            end = stop
    # Stable: of spans that begin at the same place, those that were there first hold the others.
    return Unit(unit.text, tuple(sorted([*unit.spans, *found], key=lambda span: span.start)))


def _cross(span: Span, start: int, end: int) -> bool:
    """Whether a placeholder and a span overlap and the span does not hold the placeholder."""
    is_apart = span.end <= start or end <= span.start
    return not is_apart and (span.text is not None or not (span.start <= start and end <= span.end))
