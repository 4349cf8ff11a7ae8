"""Plain text, whose lines are translated."""

from __future__ import annotations

import re

from nmt.documents.document import Document, Place, Reading
from nmt.spans.span import Unit

_LINE = re.compile(r"(?!\ufeff)\S(?:.*\S)?")
"""A line without the white space around it, and without a byte order mark."""


def read(text: str, reading: Reading) -> Document:
    """Find the lines that are not blank."""
    places = [Place(*found.span(), Unit(found[0]), _in_one_line) for found in _LINE.finditer(text)]
    return Document(text, places)


def _in_one_line(translation: str) -> str:
    return translation.replace("\n", " ")
