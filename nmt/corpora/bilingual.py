"""Message catalogues (PO) and XLIFF: the texts that have a finished translation."""

from __future__ import annotations

from collections.abc import Iterator

from nmt.corpora.formats import ParallelText, ReadPair
from nmt.documents.document import TranslatedText
from nmt.documents.formats import TranslatedFormat, read_translated
from nmt.errors import DataError
from nmt.text.languages import fitting
from nmt.text.lines import MAX_LINE_BYTES, line_too_long, reading

_LARGEST = 1 << 28
"""In bytes: a document is read whole."""


def read(text: ParallelText, document_format: TranslatedFormat) -> Iterator[ReadPair | None]:
    """Yield the pairs of a document, and None for each text without a finished translation, or in other languages.

    Raises:
        DataError: the document is damaged, in another format or too large.
    """
    for found in _texts(text, document_format):
        if found is not None and max(len(side.encode()) for side in found[:2]) > MAX_LINE_BYTES:
            raise line_too_long(text.name)
        yield None if found is None else _pair(found, text.source_lang, text.target_lang)


def languages(text: ParallelText, document_format: TranslatedFormat) -> list[str] | None:
    """The codes of the languages that a document names for its translated texts; None if it names none."""
    named = dict.fromkeys(code for found in _texts(text, document_format) if found is not None for code in found[2:])
    return list(filter(None, named)) or None


def _texts(text: ParallelText, document_format: TranslatedFormat) -> list[TranslatedText | None]:
    with reading(text.name), text.file.open() as stream:
        raw = stream.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise DataError(f"{text.name}: is larger than {_LARGEST:,} bytes, the maximum. Divide it, or write it as TMX.")
    return read_translated(raw, document_format, name=text.name, invalid=text.invalid)


def _pair(found: TranslatedText, source_lang: str, target_lang: str) -> ReadPair | None:
    """A pair in the asked direction, which may be that of the translation or its reverse; None for other languages."""

    def are(first: str, second: str) -> bool:
        sides = (found.source_lang, first), (found.target_lang, second)
        return all(not code or fitting([code], wanted) for code, wanted in sides)

    if are(source_lang, target_lang):
        return ReadPair(found.source, found.target)
    return ReadPair(found.target, found.source) if are(target_lang, source_lang) else None
