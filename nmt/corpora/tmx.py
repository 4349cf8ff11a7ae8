"""Translation memories (TMX): units whose variants hold a segment in a language each.

The file is parsed as it is read, in any encoding that XML has. Inline markup disappears: ``<hi>`` leaves its text, the
other elements (tags and placeholders of the original document) take theirs with them.

A file of others is hostile. No external entity is read, entities and attributes of its own are refused, and every name,
every segment, the depth and the length of a tag have a limit. So memory is bounded, whatever the file is.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, NoReturn
from xml.parsers import expat

from nmt.corpora.pair_file import PairFile, ReadPair
from nmt.errors import DataError
from nmt.languages import fitting
from nmt.text import MAX_LINE_BYTES, line_too_long, open_bytes, reading

# Elements in a segment whose content is no text of the sentence: codes of the original document. A <sub> within them is
# text of another place, such as a footnote.
_CODES = frozenset({"bpt", "ept", "it", "ph", "sub", "ut"})
_BLOCK = 1 << 16
_MAX_DEPTH = 100
# Different names of elements and attributes: expat keeps them all. TMX has 50.
_MAX_NAMES = 10_000
# expat keeps a tag or a comment until it ends; text is passed on as it comes.
_LONGEST_TAG = 1 << 22
_WHITE_SPACE = re.compile("[ \t\r\n]+")


def read(file: PairFile) -> Iterator[ReadPair | None]:
    """Yield the pairs of a file, and None for each unit that lacks one of the languages.

    Raises:
        DataError: the file is damaged or not TMX, goes beyond a limit, or declares entities.
    """
    memory = _Memory(file)
    with reading(file.name), open_bytes(file.path) as stream:
        while block := stream.read(_BLOCK):
            yield from memory.units_of(block)
    yield from memory.units_of(b"", is_last=True)


class _Memory:
    """A translation memory that is being parsed: what is open of it, and the units that are done."""

    def __init__(self, file: PairFile) -> None:
        self._file = file
        self._done: list[ReadPair | None] = []
        self._path: list[str] = []
        self._segments: dict[str, str] = {}
        """The segments of the open unit by the code of their language, as far as they may be needed."""
        self._language = ""
        self._text: io.StringIO | None = None
        """The text of the open segment; None outside of a segment that is read."""
        self._codes = 0
        """How many elements without text of the sentence are open."""
        self._names: dict[str, str] = {}
        self._fed = 0
        self._parser = self._make_parser()

    def _make_parser(self) -> Any:
        parser = expat.ParserCreate(intern=self._names)
        parser.buffer_text = True
        parser.StartElementHandler = self._begin
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        parser.EntityDeclHandler = self._refuse_declaration
        parser.AttlistDeclHandler = self._refuse_declaration
        parser.SkippedEntityHandler = self._refuse_entity
        return parser

    def units_of(self, block: bytes, *, is_last: bool = False) -> Iterator[ReadPair | None]:
        """Parse a block; yield the units that end in it."""
        self._fed += len(block)
        try:
            self._parser.Parse(block, is_last)
        except expat.ExpatError as error:
            raise DataError(
                f"{self._file.name}, line {error.lineno:,}, column {error.offset + 1:,}: is not valid XML "
                f"({expat.ErrorString(error.code)}). If the file is incomplete, fetch or export it again."
            ) from None
        except (LookupError, ValueError) as error:
            raise DataError(f"{self._file.name}: is in an encoding that cannot be read ({error}).") from None
        if not is_last and self._fed - self._parser.CurrentByteIndex > _LONGEST_TAG + _BLOCK:
            self._refuse(f"a tag or comment is longer than {_LONGEST_TAG:,} bytes")
        if len(self._names) > _MAX_NAMES:
            self._refuse(f"has more than {_MAX_NAMES:,} different names of elements and attributes")
        done, self._done = self._done, []
        yield from done

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name != "tmx":
            self._refuse(f"is not TMX: begins with <{name[:40]}>, not with <tmx>")
        if len(self._path) == _MAX_DEPTH:
            self._refuse(f"has elements more than {_MAX_DEPTH} deep")
        self._path.append(name)
        if self._text is not None:
            self._codes += name in _CODES
        elif name == "tu":
            self._segments = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif name == "seg" and self._path[-2:-1] == ["tuv"] and self._is_needed(self._language):
            self._text = io.StringIO()

    def _is_needed(self, language: str) -> bool:
        """Whether a segment fits the source or the target better than those before it in the unit."""
        wanted = self._file.source_lang, self._file.target_lang
        return any(fitting([*self._segments, language], code) == [language] for code in wanted)

    def _end(self, name: str) -> None:
        self._path.pop()
        if self._text is not None and name == "seg" and not self._codes:
            self._segments[self._language] = self._one_line(self._text.getvalue())
            self._text = None
        elif self._text is not None:
            self._codes -= name in _CODES
        elif name == "tu":
            self._done.append(self._pair())

    def _add_text(self, text: str) -> None:
        if self._text is None or self._codes:
            return
        self._text.write(text)
        if self._text.tell() > MAX_LINE_BYTES:
            raise line_too_long(self._place())

    def _one_line(self, text: str) -> str:
        """A segment without line breaks and tabs, which become spaces, and without white space around it."""
        line = text.strip(" \t\r\n")
        if any(character in line for character in "\t\r\n"):
            line = _WHITE_SPACE.sub(lambda found: found[0] if set(found[0]) == {" "} else " ", line)
        if len(line.encode()) > MAX_LINE_BYTES:
            raise line_too_long(self._place())
        return line

    def _pair(self) -> ReadPair | None:
        """The pair of the unit that ended; None if it lacks a language."""
        source = next(iter(fitting(self._segments, self._file.source_lang)), None)
        target = next((code for code in fitting(self._segments, self._file.target_lang) if code != source), None)
        if source is None or target is None:
            return None
        return ReadPair(self._segments[source], self._segments[target])

    def _refuse_declaration(self, *declaration: object) -> NoReturn:
        self._refuse(
            "declares entities or attributes of its own, which are not read since they may expand without end. Remove "
            "the part of <!DOCTYPE> in brackets"
        )

    def _refuse_entity(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            self._refuse(f"the entity &{name[:40]}; is not one of XML. Write the character itself")

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self._place()}: {what}.")

    def _place(self) -> str:
        return f"{self._file.name}, line {self._parser.CurrentLineNumber:,}"
