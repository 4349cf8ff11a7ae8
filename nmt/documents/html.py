"""HTML and XHTML: sentences between block tags, with the tags inside them; titles and descriptions in attributes."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nmt.documents.document import Document, Place, Reading
from nmt.documents.inline import Token, place_of
from nmt.spans.placeholders import with_placeholders
from nmt.spans.span import Unit
from nmt.text.languages import direction, language_tag

_BLOCK_NAMES = """
address article aside base blockquote body br button caption center col colgroup dd details dialog div dl dt fieldset
figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li link main map menu meta nav
noscript ol optgroup option p picture pre search section select summary table tbody td tfoot th thead title tr ul
"""
_VOID_NAMES = "area base br col embed hr img input link meta param source track wbr"
_VOID = frozenset(_VOID_NAMES.split())
_UNSEEN_NAMES = "audio canvas iframe math object script style svg template textarea video"
_UNSEEN = frozenset(_UNSEEN_NAMES.split())
"""Elements whose text is no part of the sentence around them, and not translated."""
_RAW = frozenset(["iframe", "script", "style", "textarea"])
"""Elements whose content has no tags."""
# As browsers read it: quotes have a meaning only behind "=". There is one way only to match a tag, so that one
# without an end is found out in one pass.
_WRITTEN = r"""(?:"[^"]*+"|'[^']*+'|[^\s<>"'][^\s<>]*+)"""
_VALUE = rf"(?:\s*+=\s*+(?:{_WRITTEN}|(?!{_WRITTEN}))|(?!\s*+=))"
_TAG = re.compile(rf"</?([A-Za-z][^\s<>/]*+)(?:[\s/]++|[^\s<>/][^\s<>/=]*+{_VALUE})*>", re.ASCII)
_ATTRIBUTE = re.compile(r"""([^\s"'=<>/]++)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++)))?""")
_CDATA = "<![CDATA["
_DECLARATION = re.compile(r"<[!?][^<>]*+>")
# A reference by a number that no character has. Python refuses to read numbers of thousands of digits.
_NO_CHARACTER = re.compile(r"&#[0-9]{1000,}+;?")
_TRANSLATED_ATTRIBUTES = frozenset(["alt", "aria-label", "placeholder", "title"])
_DESCRIPTIONS = frozenset(["description", "og:description", "og:title", "twitter:description", "twitter:title"])


@dataclass(frozen=True)
class Tags:
    """Names of tags with a meaning. Text on both sides of any other tag belongs together."""

    splitting: frozenset[str] = frozenset(_BLOCK_NAMES.split())
    """Between these a text is complete."""
    kept: frozenset[str] = _UNSEEN | {"code", "kbd", "pre", "samp", "var"}
    """The content of these elements is not translated."""


def read(text: str, reading: Reading, tags: Tags = Tags(), *, attributes: bool = True) -> Document:
    """Find the sentences of HTML.

    Args:
        attributes: whether titles and descriptions in attributes are translated.
    """
    found = _Finder(reading, tags, attributes=attributes)
    for token in _merged(tags_and_texts(text), tags):
        found.add(token)
    found.end_block()
    return Document(text, sorted(found.places, key=lambda place: place.start), escape, errors="xmlcharrefreplace")


def escape(text: str) -> str:
    """Escape what would be markup."""
    return html.escape(text, quote=False).replace("\u00a0", "&nbsp;")


class _Finder:
    def __init__(self, reading: Reading, tags: Tags, *, attributes: bool) -> None:
        self._reading, self._tags, self._attributes = reading, tags, attributes
        self.places: list[Place] = []
        self._block: list[Token] = []

    def add(self, token: Token) -> None:
        if token.name in self._tags.splitting:
            self.end_block()
            self._add_attributes(token)
        else:
            self._block.append(token)

    def end_block(self) -> None:
        place = place_of(self._block, self._reading.source_lang)
        if place is not None:
            self.places.append(place)
        # The attributes of a tag inside a sentence are part of the markup that moves with the translation.
        for token in self._block:
            if place is None or not place.start <= token.start < place.end:
                self._add_attributes(token)
        self._block = []

    def _add_attributes(self, token: Token) -> None:
        tag = _TAG.match(token.raw)  # perhaps of a script
        if not self._attributes or tag is None or token.kind not in ("open", "void"):
            return
        given = _attributes(tag[0])
        if _is_kept(given):
            return
        is_described = {given.get("name"), given.get("property")} & _DESCRIPTIONS
        is_button = token.name == "input" and given.get("type") in ("button", "reset", "submit")
        names = _TRANSLATED_ATTRIBUTES | ({"content"} if is_described else set()) | ({"value"} if is_button else set())
        source, target, is_translated = self._reading.source_lang, self._reading.target_lang, token.kind == "open"
        if token.name == "html" and "dir" not in given and target and direction(target) == "rtl":
            begin = token.start + len("<html")
            self.places.append(Place(begin, begin, write=lambda _: ' dir="rtl"'))
        for found in _ATTRIBUTE.finditer(tag[0]):
            name, group = found[1].lower(), next((each for each in (2, 3, 4) if found[each] is not None), None)
            if group is None:
                continue
            start, end = (token.start + place for place in found.span(group))
            if name in names and any(map(str.isalpha, value := unescaped(found[group]))):
                unit = with_placeholders(Unit(" ".join(value.split())))
                self.places.append(Place(start, end, unit, functools.partial(_in_quotes, '"' * (group == 4))))
            elif name in ("lang", "xml:lang") and token.name == "html" and target:
                self.places.append(Place(start, end, write=lambda _: language_tag(target)))
            elif name == "dir" and target and is_translated and found[group].lower() == direction(source):
                self.places.append(Place(start, end, write=lambda _: direction(target)))


def _merged(parts: Iterator[tuple[bool, int, str]], tags: Tags) -> Iterator[Token]:
    """The tokens of HTML, each element that is not translated as one."""
    inside: list[Token] = []  # from the tag of such an element on
    depth = 0
    for token in (_token(*part) for part in parts):
        if inside:
            inside.append(token)
            depth += (token.name == inside[0].name) * ((token.kind == "open") - (token.kind == "close"))
            if depth == 0:
                yield _as_kept(inside, tags)
                inside = []
        elif token.kind == "open" and (token.name in tags.kept or _is_kept(_attributes(token.raw))):
            inside, depth = [token], 1
        else:
            yield token
    if inside:  # an element that does not end
        yield _as_kept(inside, tags)


def _as_kept(tokens: list[Token], tags: Tags) -> Token:
    first = tokens[0]
    raw = "".join(token.raw for token in tokens)
    if first.name in _UNSEEN | tags.splitting:
        return Token("void", first.start, raw, name=first.name)
    return Token("kept", first.start, raw, "".join(token.text for token in tokens), first.name)


def _token(is_text: bool, start: int, raw: str) -> Token:
    if is_text:
        return Token("text", start, raw, unescaped(raw))
    tag = _TAG.fullmatch(raw)
    if tag is None:  # a comment or a declaration
        return Token("void", start, raw)
    name = tag[1].lower()
    if raw.startswith("</"):
        return Token("close", start, raw, name=name)
    return Token("void" if name in _VOID or raw.endswith("/>") else "open", start, raw, name=name)


def _attributes(tag: str) -> dict[str, str]:
    return {name.lower(): "".join(values).lower() for name, *values in _ATTRIBUTE.findall(tag)} if "=" in tag else {}


def _in_quotes(quotes: str, text: str) -> str:
    return quotes + text.replace('"', "&quot;").replace("'", "&#39;") + quotes


def _is_kept(attributes: dict[str, str]) -> bool:
    return attributes.get("translate") == "no" or "notranslate" in attributes.get("class", "").split()


def without_tags(text: str) -> str:
    """The text of HTML, roughly: what its language is identified by."""
    return unescaped(re.sub("<[^<>]*>", " ", text))


def unescaped(text: str) -> str:
    """The characters of HTML without tags."""
    return html.unescape(_NO_CHARACTER.sub("\ufffd", text))


def tags_and_texts(text: str) -> Iterator[tuple[bool, int, str]]:
    """Texts and tags in turn: whether it is a text, where it begins, and its characters."""
    place = begin = 0
    while (place := text.find("<", place)) >= 0:
        end = _end_of_tag(text, place)
        if end is None:  # a sign, not a tag
            place += 1
            continue
        if begin < place:
            yield True, begin, text[begin:place]
        yield False, place, text[place:end]
        tag = _TAG.fullmatch(text, place, end)
        begin = end
        if tag is not None and (name := tag[1].lower()) in _RAW and text[place + 1] != "/" and text[end - 2] != "/":
            close = re.compile(f"</{name}", re.IGNORECASE).search(text, end)
            end = close.start() if close else len(text)
        place = end
    if begin < len(text):
        yield True, begin, text[begin:]


def _end_of_tag(text: str, place: int) -> int | None:
    """The end of the tag or comment that begins at ``place``; None if there is none."""
    for begin, end in (("<!--", "-->"), (_CDATA, "]]>")):
        if text.startswith(begin, place):
            found = text.find(end, place)
            return len(text) if found < 0 else found + len(end)
    tag = _DECLARATION.match(text, place) or _TAG.match(text, place)
    return tag and tag.end()
