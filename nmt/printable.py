"""Untrusted text (file names, recipes, responses of servers), made safe to print on a terminal."""

from __future__ import annotations

import re

# Characters that control a terminal: control characters except tab and line feed; bidirectional embeddings, overrides
# and isolates, which reorder the text around them; line separators. Surrogates cannot be written.
_CONTROLLING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """Text for a terminal: characters that control it are escaped, as in ``\\u001b``.

    In a JSON string, the escape means the same character.
    """
    return _CONTROLLING.sub(_spelt_out, text)


def writable(text: str) -> str:
    """Text for a file or a pipe: lone surrogates, which no encoding can write, are escaped."""
    return _SURROGATE.sub(_spelt_out, text)


def has_control_characters(text: str) -> bool:
    """Whether a text that should be one line, such as a name, contains a control character."""
    return _CONTROL.search(text) is not None


def _spelt_out(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
