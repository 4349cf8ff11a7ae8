"""The formats of documents: by the ending of a file's name, or by their names."""

from __future__ import annotations

import codecs
import contextlib
import functools
import importlib
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePath
from types import ModuleType
from typing import Literal

from nmt.documents.document import Document, DocumentError, Reading, TranslatedText
from nmt.errors import DataError
from nmt.text.lines import InvalidUtf8, InvalidUtf8Error

InputFormat = Literal["lines", "paragraphs", "html", "json", "markdown", "po", "properties", "subtitles", "xliff"]
"""What is translated of a file: its lines, its paragraphs, or the texts of a document."""
DocumentFormat = Literal["lines", "html", "json", "markdown", "po", "properties", "subtitles", "xliff"]
TranslatedFormat = Literal["po", "xliff"]
"""Formats that hold texts and their translations."""

_ENDINGS: dict[DocumentFormat, str] = {
    "html": "htm html xhtml",
    "json": "arb json",
    "lines": "txt",
    "markdown": "markdown md",
    "po": "po pot",
    "properties": "properties",
    "subtitles": "srt vtt",
    "xliff": "xlf xliff",
}
_MODULES = {"json": "json_strings"}
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF8: "utf-8"}
_CHARSETS = {
    "html": re.compile(
        rb"""<\?xml[^>]*encoding=["']([\w.-]+)|<meta[^>]*charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE
    ),
    "po": re.compile(rb'"Content-Type:[^"]*charset=()([\w.:-]+)', re.IGNORECASE),
    "xliff": re.compile(rb"""<\?xml[^>]*encoding=["']([\w.-]+)()"""),
}
_LOOKED_AT = 4096
# No charset of documents writes these otherwise than ASCII does: where a document names it, it is read as ASCII.
_ASCII = string.printable + "\\u0041"
# What browsers read for a name, after the Encoding standard of the WHATWG: the larger charset of Windows, for example.
_OF_BROWSERS = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
_LIKE_BROWSERS = "like-browsers-"
"""What the names of ways to deal with errors begin with, as of :meth:`bytes.decode`."""

ENDINGS = sorted(f".{ending}" for endings in _ENDINGS.values() for ending in endings.split())
"""The endings of the names of documents."""


def format_of(path: PurePath) -> DocumentFormat | None:
    """The format of a file by its name; None if it has none of these."""
    suffix = path.suffix.lower().removeprefix(".")
    return next((name for name, endings in _ENDINGS.items() if suffix in endings.split()), None)


def read_document(
    raw: bytes, document_format: DocumentFormat, reading: Reading, *, name: str, invalid: InvalidUtf8 = "error"
) -> Document:
    """Read a document.

    Args:
        name: what errors call it.
        invalid: what to do with bytes that its encoding does not have.

    Raises:
        DataError: it is damaged or in another format; names file and line.
    """
    manner = _LIKE_BROWSERS if document_format == "html" else ""
    text, encoding = _decoded(raw, document_format, name, manner + ("strict" if invalid == "error" else "replace"))
    with _naming(name):
        document: Document = _module(document_format).read(text, replace(reading, encoding=encoding))
    return replace(document, encoding=encoding, errors=manner + document.errors)


def read_translated(
    raw: bytes, document_format: TranslatedFormat, *, name: str, invalid: InvalidUtf8 = "error"
) -> list[TranslatedText | None]:
    """Read the texts of a document that holds their translations too, with None for each that is not translated.

    Args:
        name, invalid: as of :func:`read_document`.

    Raises:
        DataError: it is damaged or in another format; names file and line.
    """
    text, encoding = _decoded(raw, document_format, name, "strict" if invalid == "error" else "replace")
    with _naming(name):
        return list(_module(document_format).translated(text, encoding))


def _module(document_format: DocumentFormat) -> ModuleType:
    return importlib.import_module(f"nmt.documents.{_MODULES.get(document_format, document_format)}")


def _decoded(raw: bytes, document_format: DocumentFormat, name: str, errors: str) -> tuple[str, str]:
    """The text of a document, and its encoding."""
    encoding = _encoding(raw, document_format)
    try:
        return raw.decode(encoding, errors), encoding
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidUtf8Error(
            f"{name}, line {line:,}: byte {error.start + 1:,} of the file (0x{raw[error.start]:02x}) is not valid "
            f"{encoding.upper()}."
        ) from None


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Name the document in errors."""
    try:
        yield
    except DocumentError as error:
        raise DataError(f"{name}, {error}") from None
    except RecursionError:
        raise DataError(f"{name}: its elements are nested too deeply.") from None


def _encoding(raw: bytes, document_format: DocumentFormat) -> str:
    """The encoding of a document: by its byte order mark, by what it says, or UTF-8."""
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):
            return encoding
    if document_format == "properties":
        try:
            raw.decode()
        except UnicodeDecodeError:
            return "iso-8859-1"  # of Java before version 9
        return "utf-8"
    pattern = _CHARSETS.get(document_format)
    found = pattern.search(raw, 0, _LOOKED_AT) if pattern else None
    given = (found[1] or found[2]).decode("ascii") if found else "utf-8"
    try:
        encoding = codecs.lookup(given).name
        is_charset = _ASCII.encode(encoding).decode(encoding) == _ASCII == _ASCII.encode(encoding).decode("ascii")
    except (LookupError, UnicodeError):  # Python's codecs are not all of text
        return "utf-8"
    if not is_charset:
        return "utf-8"
    return _OF_BROWSERS.get(encoding, encoding) if document_format == "html" else encoding


def _like_browsers(
    error: UnicodeError, otherwise: Callable[[UnicodeError], tuple[str | bytes, int]]
) -> tuple[str | bytes, int]:
    """Read and write the bytes that a charset of Windows leaves undefined as control characters, as browsers do."""
    assert isinstance(error, UnicodeDecodeError | UnicodeEncodeError)
    found = error.object[error.start : error.start + 1]
    code = ord(found)
    if error.encoding != "charmap" or not 0x80 <= code < 0xA0:
        return otherwise(error)
    return (bytes([code]) if isinstance(found, str) else chr(code)), error.start + 1


for _manner in ("strict", "replace", "xmlcharrefreplace"):
    codecs.register_error(
        _LIKE_BROWSERS + _manner, functools.partial(_like_browsers, otherwise=codecs.lookup_error(_manner))
    )
