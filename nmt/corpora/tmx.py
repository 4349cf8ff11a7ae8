"""Translation memories (TMX): units whose variants hold a segment in a language each.

The file is parsed as it is read, in any encoding that XML has. Inline markup disappears: ``<hi>`` leaves its text, the
other elements (tags and placeholders of the original document) take theirs with them.

A file of others is hostile. Nothing but the file itself is read, no entity of its own is expanded, and what is read
between the ends of two elements outside segments has a limit. So memory is bounded, whatever the file is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from lxml import etree

from nmt.corpora.formats import ParallelText, ReadPair
from nmt.errors import DataError
from nmt.text.languages import fitting
from nmt.text.lines import MAX_LINE_BYTES, line_too_long, reading

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Elements in a segment whose content is no text of the sentence: codes of the original document. A <sub> within them is
# text of another place, such as a footnote.
_CODES = frozenset({"bpt", "ept", "it", "ph", "sub", "ut"})
# Bytes and elements of a segment, with its markup, or of a tag.
_LONGEST = 4 * MAX_LINE_BYTES
_MOST_ELEMENTS = 100_000
# Different names of elements and attributes: libxml2 keeps them all. TMX has 50.
_MOST_NAMES = 10_000
# A setting of libxml2, which is no use to a user.
_PARSERS_ADVICE = re.compile(r",? *(?:try|use) XML_PARSE_HUGE(?: option)?")
_WHITE_SPACE = re.compile("[ \t\r\n]+")
# Codes that stand for white space: by their type, or by what they hold of the original document.
_SPACE_TYPE = re.compile("(x-)?(lb|pb|cb|br|tab|nbsp|(line|page|column)[ -]?break|newline|space)", re.IGNORECASE)
_SPACE_CODE = re.compile(
    r"\s+|.*(</?(br|p|div|li|tr|td|hr)\b|\\(n|r|t|line|par|tab|page)\b|&(nbsp|#160|#xa0|#9|#10|#13);).*", re.I | re.S
)
# References to characters, and control characters (but for that of ISO 2022) as bytes. XML does not have all of them.
_CONTROL = bytes(byte for byte in range(32) if chr(byte) not in "\t\n\r\x1b")
_CHARACTERS = re.compile(rb"&#(?:[xX]([0-9A-Fa-f]{1,8})|(\d{1,9}));|[%s]" % re.escape(_CONTROL))
# The last character of private use.
_STAND_IN, _REFERENCE = "\U0010fffd", b"&#x10FFFD;"
_LONGEST_REFERENCE = 16
_MOST_LANGUAGES, _LONGEST_SHOWN = 100, 40


def languages(text: ParallelText) -> list[str]:
    """The codes of the languages of a file; none if it has no segments."""
    seen: dict[str, None] = {}
    for _ in _read(text, seen):
        pass
    return list(seen)


def read(text: ParallelText) -> Iterator[ReadPair | None]:
    """Yield the pairs of a file, and None for each unit that lacks one of the languages or has a damaged segment.

    Raises:
        DataError: the file is damaged or not TMX, goes beyond a limit, or has text in entities of its own.
    """
    return _read(text, {})


def _read(text: ParallelText, seen: dict[str, None]) -> Iterator[ReadPair | None]:
    with reading(text.name), text.file.open() as stream:
        bounded = _Bounded(stream, text.name)
        # libxml2's own limits of depth, names and text hold: huge_tree is off.
        events = etree.iterparse(
            bounded,
            events=("start", "end"),
            resolve_entities=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            yield from _units(text, events, bounded, seen)
        except etree.XMLSyntaxError as error:
            first = next(iter(events.error_log), None)
            line, message = (first.line, first.message) if first else (1, error.msg)
            message = _PARSERS_ADVICE.sub("", message)
            raise DataError(
                f"{text.name}, line {line:,}: is not valid XML ({message}). If the file is incomplete, fetch or export "
                "it again."
            ) from None


class _Bounded:
    """A stream of which only so much is read until something is done with it.

    Characters that no XML may have would end the whole file, so a stand-in takes their place.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self.pending = 0
        self._held = b""
        self._is_wide: bool | None = None

    def read(self, size: int) -> bytes:
        while True:
            block = self._stream.read(size)
            self.pending += len(block)
            if self.pending > _LONGEST:
                raise DataError(f"{self._name}: a segment or a tag is longer than {_LONGEST:,} bytes, the maximum.")
            if self._is_wide is None:
                self._is_wide = b"\0" in block[:4]  # UTF-16 or UTF-32, in which every character has such bytes
            if self._is_wide:
                return block
            whole = self._held + block
            begun = whole.rfind(b"&", max(0, len(whole) - _LONGEST_REFERENCE))
            cut = begun if block and begun >= 0 and b";" not in whole[begun:] else len(whole)
            self._held = whole[cut:]
            if cut or not block:  # no bytes would mean the end
                return _of_xml(whole[:cut])


def _of_xml(block: bytes) -> bytes:
    """A part of a file with the stand-in for each character that XML does not have."""
    if b"&#" not in block and len(block.translate(None, _CONTROL)) == len(block):  # four times as fast as to search
        return block
    return _CHARACTERS.sub(_character, block)


def _character(found: re.Match[bytes]) -> bytes:
    """A reference to a character, or the stand-in for one that XML does not have, such as half of a surrogate pair."""
    value = int(found[1], 16) if found[1] else int(found[2] or 0)
    has = value in (9, 10, 13) or 32 <= value < 0xD800 or 0xE000 <= value < 0xFFFE or 0xFFFF < value < 0x110000
    return found[0] if has else _REFERENCE


def _units(text: ParallelText, events: Any, stream: _Bounded, seen: dict[str, None]) -> Iterator[ReadPair | None]:
    segments: dict[str, str] = {}
    names: set[str] = set()
    open_segments = elements = 0
    for event, element in events:
        name = _name(element)
        if event == "start":
            if element.getparent() is None and name != "tmx":
                raise DataError(f"{text.name}: is not TMX: begins with <{name[:40]}>, not with <tmx>.")
            open_segments += name == "seg"
            elements = elements + 1 if open_segments else 0
            names.update((name, *element.keys()))
            if elements > _MOST_ELEMENTS or len(names) > _MOST_NAMES:
                raise DataError(
                    f"{_place(text, element)}: has more than {_MOST_ELEMENTS:,} elements in a segment, or more than "
                    f"{_MOST_NAMES:,} different names of elements and attributes."
                )
            continue
        open_segments -= name == "seg"
        if open_segments:
            continue
        parent = element.getparent()
        if name == "seg" and parent is not None and _name(parent) == "tuv":
            language = parent.get(_LANGUAGE) or parent.get("lang") or ""
            if len(seen) < _MOST_LANGUAGES:
                seen[language[:_LONGEST_SHOWN]] = None
            if any(fitting([*segments, language], code) == [language] for code in (text.source_lang, text.target_lang)):
                segments[language] = _line(text, element)
        elif name == "tu":
            yield _pair(text, segments)
            segments = {}
        # The element itself stays until the next one ends: the parser may still add text behind it.
        element.clear(keep_tail=True)
        while element.getprevious() is not None:
            del parent[0]
        stream.pending = 0


def _name(element: Any) -> str:
    """The name of an element, without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _place(text: ParallelText, element: Any) -> str:
    return f"{text.name}, line {element.sourceline:,}"


def _line(text: ParallelText, segment: Any) -> str:
    """A segment without line breaks and tabs, which become spaces, and without white space around it."""
    line = "".join(_texts(text, segment)).strip(" \t\r\n")
    if any(character in line for character in "\t\r\n"):
        line = _WHITE_SPACE.sub(lambda found: found[0] if set(found[0]) == {" "} else " ", line)
    if len(line.encode()) > MAX_LINE_BYTES:
        raise line_too_long(_place(text, segment))
    return line


def _texts(text: ParallelText, element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            raise DataError(
                f"{_place(text, element)}: the entity {child.text[:40]} is not one of XML. Write the character itself."
            )
        if _name(child) not in _CODES:
            yield from _texts(text, child)
        elif _SPACE_TYPE.fullmatch(child.get("type", "")) or _SPACE_CODE.fullmatch(child.text or ""):
            yield "\n"  # a space, as for a line break
        yield child.tail or ""


def _pair(text: ParallelText, segments: dict[str, str]) -> ReadPair | None:
    """The pair of a unit, from its segments by the code of their language; None if it lacks a language."""
    source = next(iter(fitting(segments, text.source_lang)), None)
    target = next((code for code in fitting(segments, text.target_lang) if code != source), None)
    if source is None or target is None:
        return None
    both = segments[source] + segments[target]
    if _STAND_IN in both or _REFERENCE.decode() in both:  # the latter from CDATA
        return None
    return ReadPair(segments[source], segments[target])
