"""Text that others wrote (file names, recipes, answers of servers), made harmless for a terminal."""

from __future__ import annotations

import re

# What steers a terminal rather than being shown: control characters but tab and line feed; marks that reorder the text
# around them (bidirectional embeddings, overrides and isolates); separators of lines. Surrogates cannot be written.
_STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """Text for a terminal: each character that would steer it is spelt out, as in ``\\u001b``.

    Within the strings of JSON, that spelling means the same character.
    """
    return _STEERING.sub(_spelt_out, text)


def writable(text: str) -> str:
    """Text for a file or a pipe: nothing changes but lone surrogates, which no encoding can write."""
    return _SURROGATE.sub(_spelt_out, text)


def has_control_characters(text: str) -> bool:
    """Whether a text that should be one line, such as a name, holds a character that is not shown."""
    return _CONTROL.search(text) is not None


def _spelt_out(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
