"""Text that was in UTF-8 but was read as Latin-1 or Windows-1252, and its repair: ``Ã¤`` becomes ``ä``."""

from __future__ import annotations

import re

# Bytes 0x80 to 0x9F in Windows-1252. Five are undefined there; programs read them as control characters.
_WINDOWS = {
    byte: bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_TO_LATIN_1 = {ord(character): chr(byte) for byte, character in _WINDOWS.items()}

# The first byte of a character in UTF-8, and one that continues it.
_SUSPICIOUS = re.compile(f"[\u00c2-\u00f4][\u0080-\u00bf{''.join(_WINDOWS.values())}]")
# The end of a word in capitals before a closing mark is the same bytes as a letter: IRMÃ», MANHÃ”.
_END_OF_CAPITALS = re.compile(
    "(?<=[A-Z\u00c0-\u00de])[\u00c2-\u00df][\u00a0\u00bb\u2019\u201d\u203a\u2026\u2013\u2014](?!\\w)"
)
# What no repair may bring about: C1 control characters, and the mark of lost bytes.
_WORSE = re.compile("[\u0080-\u009f\ufffd]")


def repair_encoding(line: str) -> str:
    """The line read as UTF-8, if all of it was read as Latin-1 or Windows-1252, else the line as it is.

    The line is changed only if its bytes in one of the two encodings are valid UTF-8, and the result, read in the same
    encoding, is exactly the line. Text that was misread several times is repaired as often.
    """
    best, current = line, _reread(line)
    while current is not None:
        if not _WORSE.search(current):
            best = current
        current = _reread(current)
    return best


def _reread(line: str) -> str | None:
    """The line read as UTF-8 in place of an encoding of 8 bits; None if it does not look misread."""
    if line.isascii() or not _SUSPICIOUS.search(line):
        return None
    for in_bytes in (line, line.translate(_TO_LATIN_1)):
        try:
            reread = in_bytes.encode("latin-1").decode("utf-8")
        except UnicodeError:
            continue
        is_exact = in_bytes is line or in_bytes.translate(_WINDOWS) == line
        others = sum(not character.isascii() for character in reread)
        if is_exact and others > len(_END_OF_CAPITALS.findall(line)):
            return reread
    return None
