"""The lines of a text that are translated, and what stands between them: white space, and the tags of HTML."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.server.markup import texts_and_tags
from nmt.translation.paragraphs import Paragraph, paragraphs

Newlines = Literal["end", "wrap"]
"""What a newline does: it ends a line, or it only wraps a paragraph, which an empty line ends."""

_MARKS = ".!?…:;,"
_MARK_BEHIND_TAGS = re.compile(rf"(?:\s*+<[^<>]*+>)*\s*+[{_MARKS}]")


@dataclass(frozen=True)
class Layout:
    """A text, divided."""

    lines: Sequence[str]
    """What is translated. No line is blank, or begins or ends with white space."""
    between: Sequence[str]
    """What stands before the first line, between two lines, and after the last; one more than there are lines."""
    is_html: bool = False

    def filled(self, translations: Sequence[str]) -> str:
        """The text with the translations of its lines in their places."""
        if self.is_html:
            translations = [
                html.escape(text.rstrip(_MARKS) if _has_mark_behind(line, after) else text, quote=False)
                for text, line, after in zip(translations, self.lines, self.between[1:], strict=True)
            ]
        return self.between[0] + "".join(
            line + after for line, after in zip(translations, self.between[1:], strict=True)
        )

    @staticmethod
    def of(text: str, language: str, newlines: Newlines = "end") -> Layout:
        """Divide a text without tags into lines.

        Args:
            language: the language code of the text.
        """
        return _layout(_wrapped(text, language) if newlines == "wrap" else _lines(text))

    @staticmethod
    def of_html(text: str, language: str, kept: Collection[str] = ()) -> Layout:
        """Divide HTML or XML into the texts between its tags. A newline is white space, as in HTML.

        Args:
            language: the language code of the text: one without spaces has none for a newline either.
            kept: names of elements whose content is not translated.

        Raises:
            RequestError: a tag is inside a sentence, or a text is in a CDATA section.
        """
        one_line = functools.partial(_one_line, language=language)
        return _layout(texts_and_tags(text, language, one_line, kept), is_html=True)


def _has_mark_behind(line: str, after: str) -> bool:
    """Whether the mark at the end of a line stands behind the tags after it, so that a translation needs none."""
    return line[-1] not in _MARKS and _MARK_BEHIND_TAGS.match(after) is not None


def _layout(parts: Sequence[tuple[str, str]], *, is_html: bool = False) -> Layout:
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
    return Layout(lines, list(map("".join, between)), is_html)


def _lines(text: str) -> list[tuple[str, str]]:
    *lines, last = text.split("\n")
    return [*((line, "\n") for line in lines), (last, "")]


def _wrapped(text: str, language: str) -> list[tuple[str, str]]:
    found = list(paragraphs(text.split("\n")))
    joined = [("" if paragraph.is_blank else paragraph.unwrapped(language)) for paragraph in found]
    return [(line, "\n" if number < len(joined) else "") for number, line in enumerate(joined, start=1)]


def _one_line(text: str, language: str) -> str:
    lines = tuple(line for line in text.splitlines() if line.strip())
    return " ".join(Paragraph(lines, number=1).unwrapped(language).split())
