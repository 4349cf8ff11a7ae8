"""XLIFF 1.2 and 2: segments without a translation.

Expat says where each tag is, so that a file is written with its own tags, white space and comments.
"""

from __future__ import annotations

import html
import html.entities
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from nmt.documents.document import Document, DocumentError, Place, Reading, TranslatedText
from nmt.documents.html import unescaped
from nmt.documents.inline import Token, place_of
from nmt.text.languages import primary_language

_KEPT = frozenset(["bpt", "ept", "it", "ph", "cp", "x", "bx", "ex", "sc", "ec", "sm", "em"])
"""Inline elements that stand for code of the original, or for a place in it."""
_UNTRANSLATED_STATES = frozenset(["", "initial", "needs-translation", "new"])
_SETTLED_STATES = frozenset(["final", "signed-off"])
_SUGGESTIONS = re.compile("fuzzy-match|leveraged-mt|mt-suggestion|tm-suggestion|rejected-.*")
"""Qualifiers of a state: nobody has checked the translation yet, or it was rejected."""
_MACHINE = "nmt:mt"
_MARKS = {
    "trans-unit": ("", ' state="needs-review-translation" state-qualifier="leveraged-mt"'),
    "segment": (f' state="translated" subState="{_MACHINE}"', ""),
}
"""Attributes of a unit and of its target that say that a machine translated it, for XLIFF 1.2 and 2. Version 2 leaves
the values of subState to each tool."""
_NO_TEXT = re.compile(r"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[(?P<inside>.*?)\]\]>|(?P<entity>&[^\W\d][\w.:-]*;)", re.DOTALL)
_STATE = re.compile(r'\s(?:approved|state|state-qualifier|subState)\s*=\s*(?:"[^"]*"|\'[^\']*\')')


@dataclass
class _Element:
    name: str
    attributes: dict[str, str]
    begin: int
    """Where its start tag begins, in characters."""
    inner: int = 0
    """Where its content begins."""
    inner_end: int = 0
    end: int = 0
    parent: _Element | None = None
    children: list[_Element] = field(default_factory=list)

    def child(self, name: str) -> _Element | None:
        return next((each for each in self.children if each.name == name), None)

    @property
    def is_translated(self) -> bool:
        """Whether its content may be translated, as it or what holds it says."""
        given = self.attributes.get("translate", "no" if self.attributes.get("mtype") == "protected" else "")
        return given != "no" and (given == "yes" or self.parent is None or self.parent.is_translated)


def read(text: str, reading: Reading) -> Document:
    """Find the segments to translate.

    Raises:
        DocumentError: this is no XLIFF, or its translations are in another language.
    """
    elements = _parsed(text)
    places = list[Place]()
    for element in elements:
        if element.name == "xliff" and "srcLang" in element.attributes:
            places += _language(text, element, "trgLang", reading)
        elif element.name == "file" and "source-language" in element.attributes:
            places += _language(text, element, "target-language", reading)
        elif element.name in ("trans-unit", "segment") and element.is_translated:
            places += _segment(text, element, reading)
    return Document(text, places, escape_xml, errors="xmlcharrefreplace")


def translated(text: str, encoding: str) -> Iterator[TranslatedText | None]:
    """The segments with their translations; None for one without, or with one that is not finished.

    Raises:
        DocumentError: this is no XLIFF.
    """
    languages = "", ""
    for element in _parsed(text):
        given = element.attributes
        if element.name == "xliff":
            languages = given.get("srcLang", ""), given.get("trgLang", "")
        elif element.name == "file" and "source-language" in given:
            languages = given["source-language"], given.get("target-language", "")
        elif element.name in ("trans-unit", "segment") and element.is_translated:
            source, target = element.child("seg-source") or element.child("source"), element.child("target")
            if source is None or target is None or not _is_finished(element, target):
                yield None
                continue
            sentences, written = _sentences(source), _sentences(target)
            if sentences.keys() != written.keys():
                sentences, written = {"": source}, {"": target}
            for key, sentence in sentences.items():
                sides = zip((sentence, written[key]), languages, strict=True)
                both = [place_of(list(_tokens(text, side)), language) for side, language in sides]
                units = [place.unit.text for place in both if place is not None and place.unit is not None]
                yield TranslatedText(units[0], units[1], *languages) if len(units) == len(both) else None


def _is_finished(unit: _Element, target: _Element) -> bool:
    """Whether a translation is finished, as XLIFF's state, its qualifier and the approval of the unit say."""
    state = _state(unit, target)
    if unit.attributes.get("approved") == "yes" or state in _SETTLED_STATES:
        return True
    qualifier = target.attributes.get("state-qualifier", "")
    is_suggestion = unit.attributes.get("subState") == _MACHINE or _SUGGESTIONS.fullmatch(qualifier)
    return not is_suggestion and state not in _UNTRANSLATED_STATES and not state.startswith("needs-")


def _state(unit: _Element, target: _Element) -> str:
    return target.attributes.get("state", unit.attributes.get("state", "translated"))


def _sentences(side: _Element) -> dict[str, _Element]:
    """The sentences that other tools have marked, by their ids; the whole side if there are none."""
    found = {each.attributes.get("mid", ""): each for each in side.children if each.attributes.get("mtype") == "seg"}
    return found or {"": side}


def escape_xml(text: str) -> str:
    """Escape what would be markup; characters that XML forbids become U+FFFD."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", html.escape(text, quote=False))


def _parsed(text: str) -> list[_Element]:
    """All elements of an XLIFF in the order of their start tags.

    Raises:
        DocumentError: this is no XLIFF.
    """
    data = text.encode("utf-8", "surrogatepass")
    parser = expat.ParserCreate("utf-8")
    elements: list[_Element] = []
    opened: list[_Element] = []
    place = offset = 0  # in characters and in bytes
    hidden = 0  # the elements of an entity that are open

    def position() -> int:
        nonlocal place, offset
        place += len(data[offset : parser.CurrentByteIndex].decode("utf-8", "surrogatepass"))
        offset = parser.CurrentByteIndex
        return place

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal hidden
        begin = position()
        if text[begin] != "<":  # it is part of an entity, which stays as it is
            hidden += 1
            return
        element = _Element(name.rpartition(":")[2], attributes, begin, parent=opened[-1] if opened else None)
        element.inner = _end_of_tag(text, begin)
        if opened:
            opened[-1].children.append(element)
        elements.append(element)
        opened.append(element)

    def end(_: str) -> None:
        nonlocal hidden
        if hidden:
            hidden -= 1
            return
        element = opened.pop()
        at = position()
        is_empty = text[element.inner - 2 : element.inner] == "/>"
        element.inner_end = element.inner if is_empty else at
        element.end = element.inner if is_empty else _end_of_tag(text, at)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        at = len(data[: max(0, parser.ErrorByteIndex)].decode("utf-8", "ignore"))
        raise DocumentError(text, at, f"this is not XML: {expat.errors.messages[error.code]}.") from None
    if elements[0].name != "xliff":
        raise DocumentError(text, elements[0].begin, f"expected <xliff>, got <{elements[0].name}>.")
    return elements


def _end_of_tag(text: str, begin: int) -> int:
    """Behind the tag that begins there: a ``>`` in quotation marks does not end it."""
    found = re.compile(r"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""").match(text, begin)
    assert found is not None  # expat has read it
    return found.end()


def _language(text: str, element: _Element, name: str, reading: Reading) -> Iterator[Place]:
    """The change of the language of translations, which XLIFF asks for beside them."""
    language = reading.target_lang
    if not language:
        return
    given = element.attributes.get(name)
    if given is None:
        at = element.inner - 1
        yield Place(at, at, write=lambda _: f' {name}="{language}"')
    elif primary_language(given) != primary_language(language):
        if given and not reading.retranslate:
            raise reading.other_language(text, element.begin, given)
        found = re.compile(rf"""\b{name}\s*=\s*["']([^"']*)""").search(text, element.begin, element.inner)
        if found is not None:
            yield Place(*found.span(1), write=lambda _: language)


def _segment(text: str, element: _Element, reading: Reading) -> Iterator[Place]:
    # Other tools have divided seg-source into sentences, by elements that the translation has too.
    source, target = element.child("seg-source") or element.child("source"), element.child("target")
    if source is None or (element.attributes.get("approved") == "yes" and not reading.retranslate):
        return
    if (
        target is not None
        and not reading.retranslate
        and any(each.text.strip() for each in _tokens(text, target))
        and _state(element, target) not in _UNTRANSLATED_STATES
    ):
        return
    found = place_of(list(_tokens(text, source)), reading.source_lang)
    if found is None:
        return
    before, after = text[source.inner : found.start], text[found.end : source.inner_end]
    if target is None:
        line = text.rfind("\n", 0, source.begin)
        indent = text[line : source.begin] if line >= 0 and not text[line : source.begin].strip() else ""
        name = text[source.begin + 1 : source.inner].partition(source.name)[0] + "target"  # in its namespace
        start = end = source.end
        begin = f"{indent}<{name}>"
    else:
        start, end = target.begin, target.end
        begin = text[target.begin : target.inner].removesuffix("/>").removesuffix(">").rstrip() + ">"
        name = begin[1:-1].split()[0]
    of_unit, of_target = _MARKS[element.name]
    begin = _marked(begin, of_target)
    tag = text[element.begin : element.inner]
    if (marked := _marked(tag, of_unit)) != tag:
        begin, start = marked + text[element.inner : start] + begin, element.begin
    yield Place(start, end, found.unit, lambda written: f"{begin}{before}{written}{after}</{name}>")


def _marked(tag: str, state: str) -> str:
    """A start tag with other attributes of a state."""
    return f"{_STATE.sub('', tag)[:-1]}{state}>"


def _tokens(text: str, element: _Element) -> Iterator[Token]:
    """The texts and the tags of a source."""
    place = element.inner
    for child in element.children:
        yield from _texts(text, place, child.begin)
        raw = text[child.begin : child.end]
        if child.name in _KEPT:
            yield Token("void", child.begin, raw)
        elif not child.is_translated:
            yield Token("kept", child.begin, raw, unescaped(re.sub("<[^<>]*>", "", raw)))
        elif child.inner == child.end:
            yield Token("void", child.begin, raw)
        else:
            yield Token("open", child.begin, text[child.begin : child.inner], name=str(child.begin))
            yield from _tokens(text, child)
            yield Token("close", child.inner_end, text[child.inner_end : child.end], name=str(child.begin))
        place = child.end
    yield from _texts(text, place, element.inner_end)


def _texts(text: str, start: int, end: int) -> Iterator[Token]:
    """A text, without comments and instructions; a CDATA section and an entity of the file stay as they are."""
    place = start
    for found in _NO_TEXT.finditer(text, start, end):
        if found["entity"] and found["entity"][1:] in html.entities.html5:
            continue
        if place < found.start():
            yield Token("text", place, text[place : found.start()], unescaped(text[place : found.start()]))
        inside = found["inside"] or found["entity"] or ""
        yield Token("kept" if inside else "void", found.start(), found[0], inside)
        place = found.end()
    if place < end:
        yield Token("text", place, text[place:end], unescaped(text[place:end]))
