"""From texts and tags in a row to a unit: tags are paired, white space is folded, placeholders are found."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import regex

from nmt.documents.document import Place
from nmt.spans.placeholders import with_placeholders
from nmt.spans.span import Span, Unit
from nmt.text.languages import is_full_width

_SPACE = re.compile(r"[ \t\r\n\f]+")
_WORDS_APART = frozenset(["embed", "img", "image", "input"])
"""Void tags that stand beside words, not within one."""
_LETTER = regex.compile(r"[\p{L}\p{M}]")
"""A letter, or a mark on one."""


class Token(NamedTuple):
    """A part of a sentence with markup."""

    kind: Literal["text", "open", "close", "void", "kept"]
    start: int
    raw: str
    """As it stands in the document, from ``start``."""
    text: str = ""
    """The characters of a text, or of what is kept: they are part of the sentence, but not translated."""
    name: str = ""
    """Of an element."""

    @property
    def end(self) -> int:
        """Where it ends in the document."""
        return self.start + len(self.raw)


@dataclass
class _Building:
    language: str
    parts: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def is_at_space(self) -> bool:
        """Whether a space would be folded."""
        return bool(self.parts) and self.parts[-1].endswith(" ")

    def add(self, text: str) -> None:
        folded = _SPACE.sub(lambda found: "" if "\n" in found[0] and is_full_width(self.language) else " ", text)
        if not self.parts or self.is_at_space:
            folded = folded.lstrip(" ")
        if folded:
            self.parts.append(folded)
            self.size += len(folded)


def place_of(tokens: Sequence[Token], language: str = "") -> Place | None:
    """The place of a sentence, without white space and tags at its edges; None if there is nothing to translate.

    Args:
        language: the language code of the text: that of Chinese or Japanese has no space for a newline.
    """
    tokens = tokens if is_full_width(language) else _apart(tokens)
    partners = _partners(tokens)
    texts = list(itertools.accumulate((bool(token.text.strip()) for token in tokens), initial=0))
    begin, end = 0, len(tokens)
    while begin < end:
        if partners.get(begin) == end - 1 and begin != end - 1:
            begin, end = begin + 1, end - 1
        elif texts[begin] == texts[behind := partners.get(begin, begin) + 1]:  # holds no text
            begin = behind
        elif texts[end] == texts[before := partners.get(end - 1, end - 1)]:
            end = before
        else:
            break
    if begin == end:
        return None
    first, last = tokens[begin], tokens[end - 1]
    start, stop = first.start, last.end
    if first.kind == "text":
        start += len(first.raw) - len(_stripped(first.raw, left=True))
    if last.kind == "text":
        stop -= len(last.raw) - len(_stripped(last.raw, left=False))
    unit = _unit(tokens[:end], begin, partners, language)
    return Place(start, stop, unit) if has_words(unit) else None


def _apart(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with a space between words that only an image or the border of two links divides."""
    found: list[Token] = []
    border: int | None = None
    is_in_word = is_behind_link = False
    for token in tokens:
        if token.kind == "open" and token.name == "a" and is_behind_link:
            border = len(found)
        if token.text:
            if border is not None and is_in_word and _LETTER.match(token.text):
                found.insert(border, Token("text", found[border - 1].end, "", " "))
            is_in_word, is_behind_link, border = _LETTER.match(token.text[-1]) is not None, False, None
        found.append(token)
        if token.kind == "void" and token.name in _WORDS_APART:
            border = len(found)
        is_behind_link |= token.kind == "close" and token.name == "a"
    return found


def _unit(tokens: Sequence[Token], begin: int, partners: Mapping[int, int], language: str) -> Unit:
    """The unit of the tokens from ``begin`` on."""
    building, spans = _Building(language), list[Span]()
    opened: dict[int, tuple[int, int | None]] = {}  # the span of a tag, and the one that ended where it begins
    last = max(number for number, token in enumerate(tokens) if token.text.strip())  # behind it is only white space
    has_text = (bool(token.text) and number <= last for number, token in enumerate(tokens))
    texts = list(itertools.accumulate(has_text, initial=0))
    following = begin
    ended: int | None = None  # the span that ends here
    is_behind_void = False
    for number, token in enumerate(tokens):
        if number < following:
            continue
        place, partner = building.size, partners.get(number, number)
        if partner >= number and texts[number] == texts[partner + 1]:  # it holds no text
            following = partner + 1
            ended = _add_void(spans, ended, place, tokens[number:following])
            is_behind_void = True
        elif token.kind == "text":
            # Of the spaces on both sides of a tag that holds nothing, one would be folded.
            if is_behind_void and building.is_at_space and token.text[:1].isspace():
                at = len(spans) - 1 if ended is None else ended
                spans[at] = _followed(spans[at], " ")
            building.add(token.text)
            ended = ended if building.size == place else None
            is_behind_void = False
        elif token.kind == "kept":
            building.add(token.text)
            spans.append(Span(place, building.size, before=token.raw, text=""))
            ended, is_behind_void = None, False
        elif partner > number:
            opened[number] = len(spans), ended
            spans.append(Span(place, place, before=token.raw))
            ended = None
        else:
            ended, before = opened[partner]
            if spans[ended].start == place:  # its white space was folded; its range could hold nothing
                del spans[ended:]
                ended = _add_void(spans, before, place, tokens[partner : number + 1])
                is_behind_void = True
            else:
                spans[ended] = replace(spans[ended], end=place, after=token.raw)
    text = "".join(building.parts).rstrip(" ")
    size = len(text)
    clipped = [
        replace(
            span,
            start=min(span.start, size),
            end=min(span.end, size),
            before=" " * (span.start > size) + span.before,  # of an icon at the end
        )
        for span in spans
    ]
    return with_placeholders(Unit(text, tuple(clipped)))


def _add_void(spans: list[Span], ended: int | None, place: int, tokens: Sequence[Token]) -> int:
    """Add markup that holds no text. Returns the number of its span.

    Args:
        ended: the span that ends at the place. One of its own could as well be the last within that.
    """
    if ended is None:
        ended = len(spans)
        spans.append(Span(place, place))
    spans[ended] = _followed(spans[ended], "".join(token.raw for token in tokens))
    return ended


def has_words(unit: Unit) -> bool:
    """Whether a letter of a unit is translated."""
    kept = {place for span in unit.spans if span.text is not None for place in range(span.start, span.end)}
    return any(character.isalpha() for place, character in enumerate(unit.text) if place not in kept)


def _partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The pairs of tags, each number of a token with that of its partner. Pairs nest; other tags have none."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    names: Counter[str] = Counter()
    for number, token in enumerate(tokens):
        if token.kind == "open":
            opened.append(number)
            names[token.name] += 1
        elif token.kind == "close" and names[token.name]:
            # The innermost of that name ends; tags within it that did not end have no partner.
            while tokens[partner := opened.pop()].name != token.name:
                names[tokens[partner].name] -= 1
            names[token.name] -= 1
            partners[partner], partners[number] = number, partner
    return partners


def _followed(span: Span, raw: str) -> Span:
    """A span with further markup behind it."""
    return replace(span, after=span.after + raw) if span.after else replace(span, before=span.before + raw)


def _stripped(raw: str, *, left: bool) -> str:
    return raw.lstrip(" \t\r\n\f") if left else raw.rstrip(" \t\r\n\f")
