"""Wrapped text: lines are joined into paragraphs, translated, and wrapped again."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nmt.errors import DataError
from nmt.text.languages import is_full_width
from nmt.text.lines import MAX_LINE_BYTES
from nmt.translation.line_translator import LineTranslator
from nmt.translation.results import Translation
from nmt.translation.segment import Line

_WORD = re.compile(r"\S+\s*")
_SOFT_HYPHEN = "\u00ad"

MAX_CHARACTERS = MAX_LINE_BYTES
"""The maximum length of a paragraph."""


@dataclass(frozen=True)
class Paragraph:
    """Consecutive lines that are not blank, or a single blank line."""

    lines: tuple[str, ...]
    number: int
    """The number of its first line, from 1."""

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.number + len(self.lines) - 1

    @property
    def is_blank(self) -> bool:
        """Whether the paragraph is a blank line."""
        return not self.lines[0].strip()

    def unwrapped(self, language: str) -> str:
        """The paragraph as one line.

        Lines are joined with a space, except after a hyphen and in Chinese and Japanese.
        """
        joined: list[str] = []
        last_two = ""  # the last two characters so far
        for line in map(str.strip, self.lines):
            joined += [_between(last_two, line, language), line]
            if last_two.endswith(_SOFT_HYPHEN):
                joined[-3] = joined[-3].removesuffix(_SOFT_HYPHEN)
            last_two = "".join((last_two.removesuffix(_SOFT_HYPHEN), *joined[-2:]))[-2:]
        return "".join(joined)

    def wrapped(self, text: str, language: str) -> list[str]:
        """Wrap another text to the width and the indents of this paragraph. A single line stays a single line.

        Args:
            language: the text's language code.
        """
        first = _indent(self.lines[0])
        if len(self.lines) == 1:
            return [first + text]
        width = max(columns(line.rstrip()) for line in self.lines)
        return _wrapped(text, width, first, _indent(self.lines[1]), language)


def paragraphs(lines: Iterable[str], done: int = 0) -> Iterator[Paragraph]:
    """Yield paragraphs and blank lines, each as soon as it is complete.

    Args:
        done: the number of lines before these.

    Raises:
        DataError: a paragraph has more characters than :data:`MAX_CHARACTERS`.
    """
    block: list[str] = []
    number = characters = 0
    for number, line in enumerate(lines, start=done + 1):
        if line.strip():
            characters = len(line) + (characters if block else 0)
            if characters > MAX_CHARACTERS:
                raise DataError(
                    f"line {number:,}: the paragraph that begins at line {number - len(block):,} is longer than "
                    f"{MAX_CHARACTERS:,} characters, the maximum. Put blank lines between paragraphs."
                )
            block.append(line)
            continue
        if block:
            yield Paragraph(tuple(block), number - len(block))
            block = []
        yield Paragraph((line,), number)
    if block:
        yield Paragraph(tuple(block), number - len(block) + 1)


def translate_paragraphs(
    translator: LineTranslator, lines: Iterable[str], *, done: int = 0, done_lines: int = 0
) -> Iterator[list[tuple[Paragraph, Translation]]]:
    """Translate the paragraphs of a text in order, window by window.

    A window holds as many paragraphs as the translator's window holds lines, or fewer if they are very long.

    Args:
        done: the number of paragraphs before these.
        done_lines: the number of lines that they have.
    """
    waiting: deque[Paragraph] = deque()  # read, but not yet translated

    def unwrapped() -> Iterator[Line]:
        for number, paragraph in enumerate(paragraphs(lines, done_lines), start=done):
            waiting.append(paragraph)
            yield Line(paragraph.unwrapped(translator.source_lang), number=number, name=paragraph.number)

    for window in translator.translate_windows(unwrapped()):
        yield [(waiting.popleft(), translation) for translation in window]


def columns(text: str) -> int:
    """The width of a text in a terminal: East Asian wide characters take two columns, combining marks none."""
    return sum(
        2 if unicodedata.east_asian_width(character) in "WF" else unicodedata.category(character) not in ("Mn", "Me")
        for character in text
    )


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _between(text: str, line: str, language: str) -> str:
    if not text or text.endswith(_SOFT_HYPHEN):
        return ""
    if text.endswith("-") and text[-2:-1].isalpha() and line[0].islower():
        return ""
    if is_full_width(language) and not (text[-1].isascii() and line[0].isascii()):
        return ""
    return " "


def _wrapped(text: str, width: int, first: str, other: str, language: str) -> list[str]:
    lines = []
    line, used, empty = first, columns(first), True
    for token in _tokens(text, language):
        size = columns(token.rstrip())
        if not empty and used + size > width:
            lines.append(line.rstrip())
            line, used, empty = other, columns(other), True
        line += token
        used += columns(token)
        empty = False
    return [*lines, line.rstrip()]


def _tokens(text: str, language: str) -> Iterator[str]:
    """The units after which a line may end: words with the white space after them, or characters of full width.

    In Thai, only a dictionary knows where a word ends, so a line ends at a space.
    """
    for word in _WORD.findall(text.strip()):
        if not is_full_width(language):
            yield word
            continue
        token = ""
        for character in word:
            if token and _may_break(token[-1], character):
                yield token
                token = ""
            token += character
        yield token


def _may_break(before: str, after: str) -> bool:
    """Whether a line may end between two characters of a language in characters of full width."""
    if before.isascii() and after.isascii():
        return False
    # No line begins with closing punctuation, a mark or white space, and none ends with an opening bracket.
    if unicodedata.category(after) in ("Pe", "Pf", "Po", "Mn", "Mc", "Me", "Zs") or after.isspace():
        return False
    return unicodedata.category(before) not in ("Ps", "Pi")
