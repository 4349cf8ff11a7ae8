"""Subtitles: SubRip (``.srt``) and WebVTT (``.vtt``). A cue is one text; its translation has as many lines."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from nmt.documents.document import Document, DocumentError, Place, Reading
from nmt.documents.strings import one_line, unit_of

_TIMING = re.compile(
    r"^[ \t]*(?:\d+:)?\d+:\d+[.,]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d+[.,]\d+[^\n]*(?:\n|\Z)", re.MULTILINE
)
_LINE = re.compile(r"[^\n]*\S[^\n]*(?:\n|\Z)")
_SPACE_OUTSIDE_TAGS = re.compile(r" (?![^<>]*>)")


def read(text: str, reading: Reading) -> Document:
    """Find the texts of the cues.

    Raises:
        DocumentError: there are no cues.
    """
    places = list(_places(text, reading))
    if not places and text.strip() and not _TIMING.search(text):
        raise DocumentError(text, 0, "no line with the times of a subtitle, such as 00:00:01,000 --> 00:00:02,500.")
    return Document(text, places, _escape)


def _escape(text: str) -> str:
    # Behind an arrow, a line would be that of the times of another cue.
    return one_line(text).replace("-->", "→")


def _places(text: str, reading: Reading) -> Iterator[Place]:
    for timing in _TIMING.finditer(text):
        start = end = timing.end()
        while (line := _LINE.match(text, end)) is not None and line.end() > end and not _TIMING.match(text, end):
            end = line.end()
        cue = text[start:end]
        if (found := unit_of(cue, reading.source_lang)) is not None:
            before, unit, after = found
            core = cue[len(before) : len(cue) - len(after)]
            newline = "\r\n" if "\r\n" in core else "\n"
            write = functools.partial(_in_lines, count=core.count("\n") + 1, newline=newline)
            yield Place(start + len(before), end - len(after), unit, write)


def _in_lines(text: str, count: int, newline: str) -> str:
    """A text in lines of about the same length, at spaces."""
    for left in range(count, 1, -1):
        done = text.rfind("\n") + 1
        spaces = [found.start() for found in _SPACE_OUTSIDE_TAGS.finditer(text, done)]
        if not spaces:
            break
        middle = done + (len(text) - done) / left
        at = min(spaces, key=lambda place: abs(place - middle))
        text = f"{text[:at]}\n{text[at + 1 :]}"
    return text.replace("\n", newline)
