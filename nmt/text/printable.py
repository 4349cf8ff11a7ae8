"""Untrusted text (file names, recipes, responses of servers), made safe to print on a terminal."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

# Characters that control a terminal: control characters except tab and line feed; bidirectional embeddings, overrides
# and isolates, which reorder the text around them; line separators. Surrogates cannot be written.
_CONTROLLING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def printable(text: str) -> str:
    """Text for a terminal: characters that control it are escaped, as in ``\\u001b``.

    In a JSON string, the escape means the same character.
    """
    return _CONTROLLING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def writable(text: str, encoding: str = "utf-8") -> str:
    """Text for a file or a pipe: characters that its encoding cannot write are escaped, as in ``\\u2013``.

    In a JSON string, the escape means the same character.
    """
    return text.encode(encoding, _ESCAPED).decode(encoding)


def listed(names: Sequence[object], most: int = 3) -> str:
    """The first of some names within a message, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def counted(count: int, noun: str) -> str:
    """A number of things: 1 pair, 2,000 pairs."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def has_control_characters(text: str) -> bool:
    """Whether a text that should be one line, such as a name, contains a control character."""
    return _CONTROL.search(text) is not None


def _escape_unwritable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end


_ESCAPED = "nmt.escaped"
codecs.register_error(_ESCAPED, _escape_unwritable)
