"""What is translated of a text: its lines, or the sentences between the tags of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.documents import html
from nmt.documents.document import Document, Reading
from nmt.spans.span import Unit
from nmt.translation.paragraphs import paragraphs
from nmt.translation.results import Translation

Newlines = Literal["end", "wrap"]
"""What a newline does: it ends a line, or it only wraps a paragraph, which an empty line ends."""


@dataclass(frozen=True)
class Layout:
    """A text, divided."""

    lines: Sequence[str]
    """What is translated. No line is blank, or begins or ends with white space."""
    between: Sequence[str]
    """What stands before the first line, between two lines, and after the last; one more than there are lines."""

    @property
    def units(self) -> list[Unit]:
        """The lines, as what is translated."""
        return list(map(Unit, self.lines))

    def filled(self, translations: Sequence[Translation], rank: int = 0) -> str:
        """The text with the translations of its lines in their places.

        Args:
            rank: the number of the candidate, from 0; of a line with fewer, the last.
        """
        texts = [each.ranked(rank).text for each in translations]
        return self.between[0] + "".join(line + after for line, after in zip(texts, self.between[1:], strict=True))

    @staticmethod
    def of(text: str, language: str, newlines: Newlines = "end") -> Layout:
        """Divide a text without tags into lines.

        Args:
            language: the language code of the text.
        """
        return _layout(_wrapped(text, language) if newlines == "wrap" else _lines(text))


@dataclass(frozen=True)
class HtmlLayout:
    """HTML or XML."""

    document: Document

    @property
    def units(self) -> list[Unit]:
        """As :attr:`Layout.units`: the texts between tags that end them. A newline is white space, as in HTML."""
        return self.document.units

    def filled(self, translations: Sequence[Translation], rank: int = 0) -> str:
        """As :meth:`Layout.filled`; tags stand round what comes from the words that they held."""
        texts = [
            each.placed(unit, self.document.escape, rank) for unit, each in zip(self.units, translations, strict=True)
        ]
        return b"".join(self.document.parts(texts)).decode()

    @staticmethod
    def of(text: str, language: str, tags: html.Tags = html.Tags()) -> HtmlLayout:
        """Divide HTML or XML.

        Args:
            language: the language code of the text: one without spaces has none for a newline either.
        """
        return HtmlLayout(html.read(text, Reading(language), tags, attributes=False))


def _layout(parts: Sequence[tuple[str, str]]) -> Layout:
    """The layout of lines, each with what follows it. Lines may be empty."""
    lines: list[str] = []
    between: list[list[str]] = [[]]  # joined at the end: a text may have as many newlines as characters
    for line, after in parts:
        core = line.strip()
        if not core:
            between[-1] += [line, after]
            continue
        begin = line.index(core)
        between[-1].append(line[:begin])
        lines.append(core)
        between.append([line[begin + len(core) :], after])
    return Layout(lines, list(map("".join, between)))


def _lines(text: str) -> list[tuple[str, str]]:
    *lines, last = text.split("\n")
    return [*((line, "\n") for line in lines), (last, "")]


def _wrapped(text: str, language: str) -> list[tuple[str, str]]:
    found = list(paragraphs(text.split("\n")))
    joined = [("" if paragraph.is_blank else paragraph.unwrapped(language)) for paragraph in found]
    return [(line, "\n" if number < len(joined) else "") for number, line in enumerate(joined, start=1)]
