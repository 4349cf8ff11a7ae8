"""The lines of a text that are translated, and what stands between them: white space, and the tags of HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.serve.errors import RequestError
from nmt.translation.paragraphs import Paragraph, paragraphs

Newlines = Literal["end", "wrap"]
"""What a newline does: it ends a line, or it only wraps a paragraph, which an empty line ends."""

# Tags between which a text is complete. Text on both sides of any other tag belongs together.
_BLOCK_NAMES = """
address article aside base blockquote body br caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main menu meta nav noscript ol
optgroup option p search section summary table tbody td tfoot th thead title tr ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_NOT_TRANSLATED = ("script", "style")
# Possessive: a tag without an end is found out in one pass. A ">" in quotes ends a tag only if a quote is missing.
_TAG = re.compile(r"""</?([A-Za-z][\w:-]*+)(?:(?:[^<>"']++|"[^<"]*+"|'[^<']*+')*>|[^<>]*+>)""")
_CDATA = "<![CDATA["
_DECLARATION = re.compile(r"<[!?][^<>]*+>")
# A reference by a number that no character has. Python refuses to read numbers of thousands of digits.
_NO_CHARACTER = re.compile(r"&#[0-9]{1000,}+;?")


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
            translations = [html.escape(text, quote=False) for text in translations]
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
    def of_html(text: str, language: str) -> Layout:
        """Divide HTML or XML into the texts between its tags. A newline is white space, as in HTML.

        Args:
            language: the language code of the text: one without spaces has none for a newline either.

        Raises:
            RequestError: a tag is inside a sentence, or a text is in a CDATA section.
        """
        parts: list[tuple[str, str]] = []
        for is_text, part in _tokens(text):
            if not is_text:
                parts.append(("", part))
                continue
            characters = html.unescape(_NO_CHARACTER.sub("\ufffd", part))
            if core := characters.strip():
                begin, _, end = characters.partition(core)
                parts += [("", begin), (_one_line(core, language), end)]
            else:
                parts.append(("", part))
        return _layout(parts, is_html=True)


def without_tags(text: str) -> str:
    """The text of HTML, roughly: what its language is identified by."""
    return html.unescape(_NO_CHARACTER.sub("", re.sub("<[^<>]*>", " ", text)))


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


def _tokens(text: str) -> Iterator[tuple[bool, str]]:
    """Texts and tags in turn: whether it is a text, and its characters."""
    place = begin = 0
    while (place := text.find("<", place)) >= 0:
        end = _end_of_tag(text, place)
        if end is None:  # a sign, not a tag
            place += 1
            continue
        yield True, text[begin:place]
        yield False, text[place:end]
        place = begin = end
    yield True, text[begin:]


def _end_of_tag(text: str, place: int) -> int | None:
    """The end of the tag, or of the comment, script or style, that begins at ``place``; None if there is none."""
    if text.startswith("<!--", place):
        comment = text.find("-->", place)
        return len(text) if comment < 0 else comment + len("-->")
    if text.startswith(_CDATA, place):
        raise RequestError(400, f"{_CDATA} is not supported yet. Write the text with &lt; and &amp; in place of CDATA.")
    if declaration := _DECLARATION.match(text, place):
        return declaration.end()
    tag = _TAG.match(text, place)
    if tag is None:
        return None
    name = tag[1].lower()
    if name in _NOT_TRANSLATED and not tag[0].endswith("/>"):
        end = re.compile(f"</{name}[^<>]*+>?", re.IGNORECASE).search(text, place)
        return end.end() if end else len(text)
    if name not in _BLOCKS and name not in _NOT_TRANSLATED:
        raise RequestError(
            400,
            f"<{name}> stands inside a sentence, and tags inside sentences are not supported yet; supported are "
            "paragraphs, lists, headings, tables and line breaks. Send the text without it, or as plain text.",
        )
    return tag.end()
