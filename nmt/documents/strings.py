"""Strings of programs: what message catalogues hold. They may have tags, placeholders and several lines."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nmt.documents.document import Place
from nmt.documents.html import tags_and_texts
from nmt.documents.inline import Token, place_of
from nmt.spans.span import Unit
from nmt.text.verbatim import spans

_TAG = re.compile(r"</?([A-Za-z0-9][\w:-]*)(?:\s[^<>]*)?/?>")
_VOID = frozenset(["br", "hr", "img", "input", "wbr"])
# A message of ICU with plural forms or other choices has its own grammar.
_CHOICE = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal|choice)\s*,")
# A sentence goes on in the next line: this one is long and ends without a mark; the next begins with a small letter.
_WRAP = re.compile(r"(?<=[^\n]{40})(?<=[^\s.!?:;])\s?\n(?=[a-z])")
# The letter behind it is a key: &File, Save &As, E&xit; but not AT&T, user_id or &amp;.
_ACCELERATOR = {
    "&": re.compile(r"(?:(?<![\w&])|(?<=[^\W\d_])(?=&[^\W\d_A-Z]))&(?=[^\W_])(?!\w+;)"),
    "_": re.compile(r"(?<!\w)_(?=[^\W_])|(?<=\b[A-Z])_(?=[a-z])|(?<=\b[A-Z][a-z])_(?=[a-z])"),
}
_LONGEST_LABEL = 60


@dataclass(frozen=True)
class Line:
    """A line of a string, or several that are one wrapped sentence."""

    before: str
    unit: Unit | None
    """None if there is nothing to translate; ``before`` is the whole line then."""
    after: str = ""
    accelerator: str = ""
    """The mark of an accelerator key and its letter, such as ``&F``; it is not in the unit."""

    def written(self, translation: str) -> str:
        """The line with a marked-up translation in place of the unit."""
        return self.before + _with_accelerator(translation, self.accelerator) + self.after


def lines_of(text: str, language: str = "", *, has_accelerators: bool = False) -> list[Line]:
    """The lines of a string, each with its newline.

    Args:
        language: the language code of the text.
        has_accelerators: whether the mark of an accelerator key may be in it.
    """
    if _CHOICE.search(text):
        return [Line(text, None)]
    joins = {found.end() - 1 for found in _WRAP.finditer(text)}
    lines: list[Line] = []
    begin = 0
    for newline in [at for at, character in enumerate(text) if character == "\n" and at not in joins] + [len(text) - 1]:
        if begin <= newline:
            lines.append(_line(text[begin : newline + 1], language, has_accelerators=has_accelerators))
            begin = newline + 1
    return lines


def places_of(
    text: str,
    start: int,
    end: int,
    write: Callable[[str], str],
    write_further: Callable[[str], str] | None = None,
    *,
    language: str = "",
    has_accelerators: bool = False,
) -> Iterator[Place]:
    """The places of a string: the first replaces what stands between two places, further ones follow it.

    Args:
        text: the string, without the escapes of its format.
        write: writes the first lines of the translation with the escapes of the format, up to the first translated one.
        write_further: writes each further line that is translated, with those before it that are not; as ``write`` if
            unset.
        language, has_accelerators: as of :func:`lines_of`.
    """
    lines = lines_of(text, language, has_accelerators=has_accelerators)
    last = max((number for number, line in enumerate(lines) if line.unit is not None), default=-1)
    before = ""
    for number, line in enumerate(lines[: last + 1]):
        if line.unit is None:
            before += line.before
            continue
        after = "".join(each.before for each in lines[last + 1 :]) if number == last else ""
        yield Place(start, end, line.unit, functools.partial(_written, write, before, line, after))
        start, before, write = end, "", write_further or write


def _written(write: Callable[[str], str], before: str, line: Line, after: str, translation: str) -> str:
    return write(before + line.written(translation) + after)


def unit_of(text: str, language: str = "") -> tuple[str, Unit, str] | None:
    """A string as one unit, with what stands before and behind it; None if there is nothing to translate."""
    place = place_of(list(_tokens(text)), language)
    return None if place is None or place.unit is None else (text[: place.start], place.unit, text[place.end :])


def without_surrogates(text: str) -> str:
    """A text of UTF-16 code units: pairs of surrogates become the character, others U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _line(text: str, language: str, *, has_accelerators: bool) -> Line:
    whole, accelerator = text, ""
    if has_accelerators and (found := _accelerator(text)) is not None:
        accelerator = text[found : found + 2]
        text = text[:found] + text[found + 1 :]
    sentence = unit_of(text, language)
    return Line(whole, None) if sentence is None else Line(*sentence, accelerator)


def _accelerator(text: str) -> int | None:
    """The place of the mark of an accelerator key; None if there is none, or more than one."""
    if len(text) > _LONGEST_LABEL:
        return None
    for mark, pattern in _ACCELERATOR.items():
        if text.count(mark) == 1 and (found := pattern.search(text)) is not None:
            place = found.start()
            return None if any(start <= place < end for start, end in spans(text)) else place
    return None


def _with_accelerator(text: str, accelerator: str) -> str:
    """A translation with an accelerator: its letter if the text has it, or the first letter, or in parentheses."""
    if not accelerator:
        return text
    mark, letter = accelerator[0], accelerator[1]
    taken = [*spans(text), *(found.span() for found in _TAG.finditer(text))]
    free = [at for at in range(len(text)) if not any(start <= at < end for start, end in taken)]
    starts = [at for at in free if text[at].isalpha() and not text[at - 1 : at].isalnum()]
    same = [at for at in free if text[at].lower() == letter.lower()]
    cased = [at for at in starts if text[at].lower() != text[at].upper()]
    if not (at := next(iter([*(set(starts) & set(same)), *same, *cased]), None)) and at != 0:
        return f"{text}({mark}{letter.upper()})"
    return text[:at] + mark + text[at:]


def _tokens(text: str) -> Iterator[Token]:
    """The texts and the tags; what looks like a tag but belongs to no pair is text, such as the <file> of a usage."""
    found = [(is_text, start, raw, _TAG.fullmatch(raw)) for is_text, start, raw in tags_and_texts(text)]
    opened = {tag[1] for _, _, raw, tag in found if tag and not raw.startswith("</")}
    closed = {tag[1] for _, _, raw, tag in found if tag and raw.startswith("</")}
    for is_text, start, raw, tag in found:
        if is_text or tag is None:
            yield Token("text", start, raw, raw)
        elif raw.endswith("/>") or tag[1].lower() in _VOID:
            yield Token("void", start, raw)
        elif tag[1] in opened & closed:
            yield Token("close" if raw.startswith("</") else "open", start, raw, name=tag[1])
        else:
            yield Token("text", start, raw, raw)
