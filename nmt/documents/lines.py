"""Plain text, whose lines are translated."""

from __future__ import annotations

import re

from nmt.documents.document import Document, Place, Reading
from nmt.spans.span import Unit
from nmt.text.lines import one_line

_LINE = re.compile(r"(?!\ufeff)\S(?:.*\S)?")
"""A line without the white space around it, and without a byte order mark."""


def read(text: str, reading: Reading) -> Document:
    """Find the lines that are not blank."""
    places = [Place(*found.span(), Unit(found[0]), one_line) for found in _LINE.finditer(text)]
    return Document(text, places)
