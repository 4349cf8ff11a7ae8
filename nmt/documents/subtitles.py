"""Subtitles: SubRip (``.srt``) and WebVTT (``.vtt``).

A cue is one text, and in a dialogue each turn; its translation has as many lines.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator
from dataclasses import replace

from nmt.documents.document import Document, DocumentError, Place, Reading
from nmt.documents.html import escape, unescaped
from nmt.documents.inline import Token, place_of
from nmt.text.lines import one_line

_TIMES = r"[ \t]*(?:\d+:)?\d+:\d+[.,]\d+[ \t]*-->[ \t]*(?:\d+:)?\d+:\d+[.,]\d+[^\n]*(?:\n|\Z)"
_TIMING = re.compile(f"^{_TIMES}", re.MULTILINE)
# A line of a cue: not the beginning of the next one, where the empty line before it is missing.
_LINE = re.compile(rf"(?!(?:[ \t]*\d+[ \t\r]*\n)?{_TIMES})[^\n]*\S[^\n]*(?:\n|\Z)")
# A tag of WebVTT or SubRip, such as <c.yellow>, <v Roger> or <00:19.000>, or of SubStation Alpha, such as {\an8}.
_TAG = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z]+)(?:[.\s][^<>]*)?>|<\d[\d:.]*>|\{\\[^{}]*\}")
# Who speaks next in a cue of several speakers: a line with a dash.
_TURN = re.compile(r"(?:<[^<>\n]*>|\{\\[^{}\n]*\})*[ \t]*[-\u2010-\u2015][ \t]*")
_SPACE_OR_TAG = re.compile(r" |<[^<>]*>|\{\\[^{}]*\}")


def read(text: str, reading: Reading) -> Document:
    """Find the texts of the cues.

    Raises:
        DocumentError: there are no cues.
    """
    is_vtt = text.removeprefix("\ufeff").startswith("WEBVTT")
    flat = re.sub(r"\r(?!\n)", "\n", text)  # as long as the text
    places = list(_places(text, flat, reading.source_lang, has_references=is_vtt))
    if not places and text.strip() and not _TIMING.search(flat):
        raise DocumentError(text, 0, "no line with the times of a subtitle, such as 00:00:01,000 --> 00:00:02,500.")
    return Document(text, places, _escape_vtt if is_vtt else _escape_srt)


def _escape_vtt(text: str) -> str:
    return escape(one_line(text))


def _escape_srt(text: str) -> str:
    # Behind an arrow, a line would be that of the times of another cue.
    return one_line(text).replace("-->", "→")


def _places(text: str, flat: str, language: str, *, has_references: bool) -> Iterator[Place]:
    for timing in _TIMING.finditer(flat):
        for start, end in _turns(flat, timing.end()):
            place = place_of(list(_tokens(text, start, end, has_references=has_references)), language)
            if place is not None:
                newlines = re.findall(r"\r\n?|\n", text[place.start : place.end])
                newline = newlines[0] if newlines else ""
                yield replace(place, write=functools.partial(_in_lines, count=len(newlines) + 1, newline=newline))


def _turns(text: str, start: int) -> list[tuple[int, int]]:
    """Where the turns of a dialogue begin, behind their dashes, and end; the whole of another cue."""
    turns, end = [], start
    while (line := _LINE.match(text, end)) is not None:
        if (turn := _TURN.match(text, end)) is not None:
            turns.append(turn)
        end = line.end()
    # A dash on a later line alone may stand within a sentence.
    if len(turns) < 2 or turns[0].start() != start:
        return [(start, end)]
    ends = [*(turn.start() for turn in turns[1:]), end]
    return [(turn.end(), stop) for turn, stop in zip(turns, ends, strict=True)]


def _tokens(text: str, start: int, end: int, *, has_references: bool) -> Iterator[Token]:
    """The texts and the tags of a cue. A tag need not be closed."""
    for tag in [*_TAG.finditer(text, start, end), None]:
        before = text[start : end if tag is None else tag.start()]
        if before:
            yield Token("text", start, before, unescaped(before) if has_references else before)
        if tag is not None:
            name = tag["name"] or ""
            yield Token("close" if tag["close"] else "open" if name else "void", tag.start(), tag[0], name=name)
            start = tag.end()


def _in_lines(text: str, count: int, newline: str) -> str:
    """A text in lines of about the same length, at spaces."""
    spaces = [found.start() for found in _SPACE_OR_TAG.finditer(text) if found[0] == " "]
    lines: list[str] = []
    begin = 0
    for left in range(count, 1, -1):
        middle = begin + (len(text) - begin) / left
        behind = bisect.bisect_left(spaces, middle)
        near = [place for place in spaces[max(behind - 1, 0) : behind + 1] if place >= begin]
        if not near:
            break
        end = min(near, key=lambda place: abs(place - middle))
        lines.append(text[begin:end])
        begin = end + 1
    return newline.join([*lines, text[begin:]])
