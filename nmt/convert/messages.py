"""Text of files within messages."""

from __future__ import annotations

import reprlib

LARGEST_NAME = 100


def shown(text: object) -> str:
    """Text of a file within a message: short, and without characters that cannot be printed."""
    # Lists that hold the same list many times may be of any size as text.
    return repr((text if isinstance(text, str) else reprlib.repr(text))[:LARGEST_NAME])[1:-1]
