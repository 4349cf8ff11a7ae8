"""Placeholders and web addresses of a text: they stand in its translation as they are."""

from __future__ import annotations

import itertools

from nmt.spans.span import Span, Unit
from nmt.text.verbatim import may_be_in, spans


def with_placeholders(unit: Unit) -> Unit:
    """A unit with a span for each placeholder and web address that no other span divides or keeps."""
    if not may_be_in(unit.text):
        return unit
    kept = {(span.start, span.end) for span in unit.spans if span.text is not None}
    edges = sorted({0, len(unit.text), *(edge for span in unit.spans for edge in (span.start, span.end))})
    found: list[Span] = []
    for begin, end in itertools.pairwise(edges):
        done = 0
        for start, stop in sorted(spans(unit.text[begin:end])) if (begin, end) not in kept else ():
            if start >= done:
                found.append(Span(begin + start, begin + stop, text=unit.text[begin + start : begin + stop]))
                done = stop
    # Stable: of spans that begin at the same place, those that were there first hold the others.
    return Unit(unit.text, tuple(sorted([*unit.spans, *found], key=lambda span: span.start)))
