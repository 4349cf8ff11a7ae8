"""What is translated of a text, as of a document: its lines, its paragraphs, or the sentences between tags of HTML."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

from nmt.documents import html, lines
from nmt.documents.document import Document, Place, Reading
from nmt.spans.span import Unit
from nmt.translation.paragraphs import paragraphs
from nmt.translation.results import Translation

Newlines = Literal["end", "wrap"]
"""What a newline does: it ends a line, or it only wraps a paragraph, which an empty line ends."""


def layout_of(text: str, language: str, *, tags: html.Tags | None = None, newlines: Newlines = "end") -> Document:
    """Divide a text.

    Args:
        language: the language code of the text: Chinese and Japanese have no space for a newline.
        tags: of HTML and XML; None for a text without tags.
        newlines: what a newline does in a text without tags.
    """
    if tags is not None:
        return html.read(text, Reading(language), tags, attributes=False)
    if newlines == "end":
        return lines.read(text, Reading(language))
    written = text.split("\n")
    begins = list(itertools.accumulate((len(line) + 1 for line in written), initial=0))
    places = [
        Place(begins[each.number - 1], begins[each.last] - 1, Unit(each.unwrapped(language)))
        for each in paragraphs(written)
        if not each.is_blank
    ]
    return Document(text, places)


def filled(document: Document, translations: Sequence[Translation], rank: int = 0) -> str:
    """The text with the translations of its units in their places; tags stand round what comes from what they held.

    Args:
        rank: the number of the candidate, from 0; of a line with fewer, the last.
    """
    pairs = zip(document.units, translations, strict=True)
    return b"".join(document.parts([each.placed(unit, document.escape, rank) for unit, each in pairs])).decode()


def between(document: Document) -> list[str]:
    """What stands before the first unit, between two, and after the last; one more than there are units."""
    edges = [0, *(edge for place in document.places for edge in (place.start, place.end)), len(document.text)]
    return [document.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
