"""Placeholders and web addresses of a text: they stand in its translation as they are."""

from __future__ import annotations

import bisect

from nmt.spans.span import Span, Unit
from nmt.text.verbatim import may_be_in, spans


def with_placeholders(unit: Unit) -> Unit:
    """A unit with a span for each placeholder and web address that no other span crosses or keeps."""
    if not may_be_in(unit.text):
        return unit
    kept = sorted((span.start, span.end) for span in unit.spans if span.text is not None)
    edges = sorted(edge for span in unit.spans for edge in (span.start, span.end))
    found: list[Span] = []
    end = 0
    for start, stop in sorted(spans(unit.text)):
        is_crossed = bisect.bisect_right(edges, start) < bisect.bisect_left(edges, stop)
        before = bisect.bisect_left(kept, (stop,)) - 1  # the last that begins before its end
        is_kept = before >= 0 and kept[before][1] > start
        if start >= end and not is_crossed and not is_kept:
            found.append(Span(start, stop, text=unit.text[start:stop]))
            end = stop
    # Stable: of spans that begin at the same place, those that were there first hold the others.
    return Unit(unit.text, tuple(sorted([*unit.spans, *found], key=lambda span: span.start)))
