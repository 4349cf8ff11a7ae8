"""A document: its text, and the places in it that change when it is translated.

Nothing is serialised: a translated document is the original with some ranges replaced. So whatever a format does not
understand stays byte for byte.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nmt.errors import DataError
from nmt.spans.span import Unit


@dataclass(frozen=True)
class Place:
    """A range of a document that changes."""

    start: int
    end: int
    """Where it is in the document's text, in characters."""
    unit: Unit | None = None
    """What is translated; None for a place with the same content in each translation, such as a language code."""
    write: Callable[[str], str] = str
    """What stands in the place, from the marked-up translation of the unit (empty if there is no unit)."""


@dataclass(frozen=True)
class Reading:
    """How documents are read."""

    source_lang: str = ""
    """The language code of the texts."""
    target_lang: str = ""
    """The language code of the translations; if it is empty, no language that a document names is changed."""
    retranslate: bool = False
    """Whether texts that the document has a translation of are translated again."""
    fuzzy: bool = False
    """Whether translations in a catalogue of gettext are marked as ones that somebody must look at."""
    encoding: str = "utf-8"
    """The encoding of the document's bytes."""
    or_else: str = ""
    """What else a user can do if the translations of a document are in another language: the end of the error."""

    def other_language(self, text: str, place: int, found: str) -> DocumentError:
        """The error that the translations of a document are in another language."""
        return DocumentError(
            text,
            place,
            f"the translations are in {found}, but the model translates to {self.target_lang}. Take the file without "
            f"translations{self.or_else}.",
        )


@dataclass(frozen=True)
class Document:
    """A text with places to translate."""

    text: str
    places: Sequence[Place]
    """In order; they do not overlap."""
    escape: Callable[[str], str] = str
    """Escapes characters of a translation that would be markup."""
    encoding: str = "utf-8"
    errors: str = "strict"
    """What is done with characters that the encoding lacks, as of :meth:`str.encode`."""

    @property
    def units(self) -> list[Unit]:
        """What is translated."""
        return [place.unit for place in self.places if place.unit is not None]

    @property
    def lines(self) -> list[int]:
        """The number of the line, from 1, in which each of the units is translated."""
        ends = [found.start() for found in re.finditer("\n", self.text)]
        return [bisect.bisect_left(ends, place.start) + 1 for place in self.places if place.unit is not None]

    def parts(self, translations: Iterable[str | None], done: int = 0) -> Iterable[bytes]:
        """The written document in parts: for each translation what ends with it, and at last the rest.

        Args:
            translations: of the units after the first ``done``, marked up; None leaves a place as it is.
            done: the number of units that are written already.

        Raises:
            DataError: the encoding lacks a character of a translation.
        """
        counts = list(itertools.accumulate(place.unit is not None for place in self.places))
        number = bisect.bisect_left(counts, done) + 1 if done else 0  # the first place behind those that are written
        end = self.places[number - 1].end if number else 0
        written: list[str] = []
        translated = iter(translations)
        for place in itertools.islice(self.places, number, None):
            written.append(self.text[end : place.start])
            translation = "" if place.unit is None else next(translated)
            written.append(self.text[place.start : place.end] if translation is None else place.write(translation))
            end = place.end
            if place.unit is not None:
                yield self._encoded("".join(written))
                written = []
        yield self._encoded("".join([*written, self.text[end:]]))

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            lacking = error.object[error.start : error.end]
            raise DataError(
                f"the document is in {self.encoding}, which has no {lacking!r}. Convert the document to UTF-8."
            ) from None


class TranslatedText(NamedTuple):
    """A text of a document with its translation, both without markup."""

    source: str
    target: str
    source_lang: str
    target_lang: str
    """Language codes; empty if the document does not name the language."""


class DocumentError(DataError):
    """A document that is damaged, at a place of its text."""

    def __init__(self, text: str, place: int, problem: str) -> None:
        """Say what is wrong, and in which line."""
        super().__init__(f"line {text.count(chr(10), 0, place) + 1:,}: {problem}")
