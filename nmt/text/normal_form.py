"""Unicode normal form C, without quadratic time on long lines."""

from __future__ import annotations

import functools
import re
import unicodedata

# Python sorts the marks of a letter by insertion sort. For shorter lines, that takes at most a millisecond.
_LONG_LINE = 1_000
_MANY_MARKS = 30
"""More marks than any script puts on one letter (Unicode Standard Annex 15, Stream-Safe Text Format)."""
_BLOCKS_OF_MARKS = range(0x300, 0x20000)
# They have no combining class, but decompose into marks that have one.
_COMPOSED_MARKS = "\u0f73\u0f75\u0f81"


def nfc(line: str) -> str:
    """The line in normal form C."""
    if line.isascii():
        return line
    if len(line) > _LONG_LINE:
        line = _many_marks().sub(_in_canonical_order, line)
    return unicodedata.normalize("NFC", line)


def marks() -> str:
    """All characters that normalisation may reorder."""
    return "".join(filter(unicodedata.combining, map(chr, _BLOCKS_OF_MARKS))) + _COMPOSED_MARKS


@functools.cache
def _many_marks() -> re.Pattern[str]:
    mark = f"[{re.escape(marks())}]"
    return re.compile(f"{mark}{mark}{{{_MANY_MARKS - 1},}}")


def _in_canonical_order(stretch: re.Match[str]) -> str:
    decomposed = "".join(unicodedata.normalize("NFD", mark) for mark in stretch[0])
    return "".join(sorted(decomposed, key=unicodedata.combining))
