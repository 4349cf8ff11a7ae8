"""Properties of Java (``.properties``): keys with texts, in UTF-8 or with escapes such as ``\\u00e4``."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from nmt.documents.document import Document, Place, Reading
from nmt.documents.strings import places_of, without_surrogates
from nmt.text.lines import one_line

_PROPERTY = re.compile(
    r"^[ \t\f\ufeff]*(?:[#!][^\n]*|(?P<key>(?:[^\s\\=:#!]|\\.)(?:[^\s\\=:]|\\(?:.|\r?\n))*)"
    r"(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)(?:\\\r?\n[ \t\f]*)*(?P<value>(?:[^\\\r\n]|\\(?:\r?\n|.))*))",
    re.MULTILINE,
)
_ESCAPE = re.compile(r"\\(?:u([\dA-Fa-f]{4})|\r?\n[ \t\f]*|(.))")
_LETTERS = {"f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES = str.maketrans({"\\": r"\\"} | {character: f"\\{letter}" for letter, character in _LETTERS.items()})
_ARGUMENT = re.compile(r"\{\d+[^{}]*\}")


def read(text: str, reading: Reading) -> Document:
    """Find the texts. Characters beyond ASCII are written as the file has them: plainly, or as escapes."""
    is_plain = not text.isascii() and not re.search(r"\\u[\dA-Fa-f]{4}", text)
    return Document(text, list(_places(text, reading, is_plain=is_plain)), one_line)


def _places(text: str, reading: Reading, *, is_plain: bool) -> Iterator[Place]:
    for found in _PROPERTY.finditer(text):
        if found["key"] is None:
            continue
        value = _unescaped(found["value"])
        # Only in a message with arguments, an apostrophe is doubled; single ones quote, and such messages are left.
        has_arguments = _ARGUMENT.search(value) is not None
        if has_arguments and "'" in value.replace("''", ""):
            continue
        message = value.replace("''", "'") if has_arguments else value
        write = functools.partial(_escaped, has_arguments, is_plain)
        yield from places_of(message, *found.span("value"), write, language=reading.source_lang)


def _escaped(has_arguments: bool, is_plain: bool, text: str) -> str:
    escaped = (text.replace("'", "''") if has_arguments else text).translate(_ESCAPES)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    if is_plain or escaped.isascii():
        return escaped
    units = escaped.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def _unescaped(text: str) -> str:
    return without_surrogates(
        _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2] or ""), text)
    )
