"""Letters of a line, counted fast: most characters of most lines are ASCII, and bytes are deleted at once."""

from __future__ import annotations

import string

_ASCII = bytes(range(128))
_ASCII_LETTERS = string.ascii_letters.encode()


def count_letters(line: str) -> int:
    """The number of characters that are letters (category L)."""
    in_bytes = line.encode("utf-8", "replace")
    ascii_letters = len(in_bytes) - len(in_bytes.translate(None, _ASCII_LETTERS))
    return ascii_letters + (0 if line.isascii() else sum(map(str.isalpha, beyond_ascii(line))))


def beyond_ascii(line: str) -> str:
    """The characters of a line that are not ASCII."""
    return line.encode("utf-8", "replace").translate(None, _ASCII).decode()
