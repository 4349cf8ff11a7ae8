"""Catalogues of GNU gettext (``.po``, ``.pot``): messages without a translation, or with a fuzzy one."""

from __future__ import annotations

import contextlib
import functools
import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nmt.documents.document import Document, DocumentError, Place, Reading, TranslatedText
from nmt.documents.strings import lines_of, places_of
from nmt.text.languages import primary_language
from nmt.text.lines import one_line
from nmt.text.verbatim import placeholders

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_LINE = re.compile(
    rf"(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)[ \t]*(?={_STRING})"
    rf"|(?P<string>{_STRING})[ \t]*(?:\r?\n|$)|(?P<comment>#[^\n]*\n?)|[ \t\r\ufeff]*\n|[ \t\r\ufeff]+"
)
_ESCAPED = re.compile(r"((?:\\x[\dA-Fa-f]{2}|\\[0-7]{1,3})+)|\\(.)")
_LETTERS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_ESCAPES = str.maketrans(
    {"\\": r"\\", '"': r"\""} | {character: f"\\{letter}" for letter, character in _LETTERS.items()}
)
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_FORMS = re.compile(r"nplurals\s*=\s*(\d+)(?:\s*;\s*plural\s*=([^;\n]*))?")
_LANGUAGE = re.compile(r'\bLanguage: *([^"\\\s]*)')
_ADDED_ACCELERATOR = re.compile(r"\s?\([&_][A-Z0-9]\)")
"""In a translation that has no letter for it, as in Chinese."""
_FUZZY = re.compile(r",[ \t]*fuzzy\b")
_TWO_FORMS = "nplurals=2; plural=(n != 1);"
_PLURALS = {
    "nplurals=1; plural=0;": "id ja ko lo ms my th vi zh",
    "nplurals=2; plural=(n > 1);": "fr oc tr",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);": (
        "be bs hr ru sr uk"
    ),
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n!=0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
}
"""Formulas of plural forms, after the manual of GNU gettext; most languages have two forms, of which one is n = 1."""


@dataclass
class _Field:
    keyword: str
    start: int
    """Of its first quotation mark."""
    end: int = 0
    """Behind its last quotation mark."""
    value: str = ""


@dataclass
class _Entry:
    comments: list[tuple[int, str]] = field(default_factory=list)
    """Each with its place."""
    fields: list[_Field] = field(default_factory=list)

    def get(self, keyword: str) -> _Field | None:
        return next((each for each in self.fields if each.keyword == keyword), None)

    @property
    def translations(self) -> list[_Field]:
        return [each for each in self.fields if each.keyword.startswith("msgstr")]

    @property
    def is_header(self) -> bool:
        message = self.get("msgid")
        return message is not None and not message.value and self.get("msgctxt") is None

    @property
    def is_fuzzy(self) -> bool:
        return any(comment.startswith("#,") and _FUZZY.search(comment) for _, comment in self.comments)


def read(text: str, reading: Reading) -> Document:
    """Find the messages to translate.

    Raises:
        DocumentError: the catalogue is damaged, or its translations are in another language.
    """
    return Document(text, list(_Catalogue(text, reading).places()), one_line)


def translated(text: str, encoding: str) -> Iterator[TranslatedText | None]:
    """The messages with their translations, by lines where both have equally many; None for one without, or fuzzy.

    Raises:
        DocumentError: the catalogue is damaged.
    """
    return _Catalogue(text, Reading(encoding=encoding)).translated()


class _Catalogue:
    def __init__(self, text: str, reading: Reading) -> None:
        self._text, self._reading = text, reading
        self._newline = "\r\n" if "\r\n" in text[:1000] else "\n"
        self._forms = 0
        self._has_form_of_one = True
        """Whether a form is for the number 1 alone, not for 21 too."""

    def places(self) -> Iterator[Place]:
        entries = list(self._entries())
        has_plurals = any(entry.get("msgid_plural") for entry in entries)
        is_begun = any(each.value for entry in entries if not entry.is_header for each in entry.translations)
        for entry in entries:
            if entry.is_header:
                yield from self._of_header(entry, has_plurals=has_plurals, is_begun=is_begun)
            elif entry.get("msgid") is not None:
                yield from self._of_message(entry)

    def translated(self) -> Iterator[TranslatedText | None]:
        language = ""
        for entry in self._entries():
            if entry.is_header:
                header = entry.translations[0].value
                self._read_forms(header)
                language = found[1] if (found := _LANGUAGE.search(header)) else ""
            elif entry.get("msgid") is not None:
                for source, target in zip(self._sources(entry), entry.translations, strict=True):
                    lines, written = (_lines(each.value) for each in (source, target))
                    if entry.is_fuzzy or not lines or not written:
                        yield None
                    elif len(lines) == len(written):
                        yield from (TranslatedText(*pair, "", language) for pair in zip(lines, written, strict=True))
                    else:
                        yield TranslatedText(" ".join(lines), " ".join(written), "", language)

    def _entries(self) -> Iterator[_Entry]:
        text, place, entry = self._text, 0, _Entry()
        while place < len(text):
            found = _LINE.match(text, place)
            if found is None or (found["string"] and not entry.fields):
                raise DocumentError(text, place, "expected a comment or a keyword of gettext with a string in quotes.")
            if entry.translations and (found["comment"] or found["keyword"] in ("msgctxt", "msgid")):
                yield entry
                entry = _Entry()
            if found["comment"]:
                entry.comments.append((place, found["comment"]))
            elif found["keyword"]:
                entry.fields.append(_Field(found["keyword"], found.end()))
            elif found["string"]:
                entry.fields[-1].end = found.end("string")
                entry.fields[-1].value += _ESCAPED.sub(self._characters, found["string"][1:-1])
            place = found.end()
        if entry.translations:
            yield entry

    def _characters(self, escapes: re.Match[str]) -> str:
        codes, letter = escapes.groups()
        if codes is None:
            return _LETTERS.get(letter, letter)
        numbers = [int(code[1:], 16) if code[0] == "x" else int(code, 8) & 0xFF for code in codes.split("\\")[1:]]
        return bytes(numbers).decode(self._reading.encoding, "replace")

    def _of_header(self, entry: _Entry, *, has_plurals: bool, is_begun: bool) -> Iterator[Place]:
        header, language = entry.translations[0], self._reading.target_lang
        formula = self._read_forms(header.value)
        if not language:
            return
        written = self._text[header.start : header.end]
        given = _LANGUAGE.search(written)
        if (
            given
            and given[1]
            and primary_language(given[1]) != primary_language(language)
            and is_begun
            and not self._reading.retranslate
        ):
            raise self._reading.other_language(self._text, header.start, given[1])
        new = re.sub(r"charset=CHARSET\b", "charset=UTF-8", written)
        new = re.sub(r'(Language:) *[^"\\]*', rf"\1 {language.replace('-', '_')}", new)
        if formula and has_plurals:
            new = re.sub(r'\s*"Plural-Forms:[^"]*"', "", new)
            new += f'{self._newline}"Plural-Forms: {formula}\\n"'
        if entry.is_fuzzy:
            start, kept = self._head(entry, header, fuzzy=False)
            yield Place(start, header.end, write=lambda _: kept + new)
        elif new != written:
            yield Place(header.start, header.end, write=lambda _: new)

    def _read_forms(self, header: str) -> str:
        """Read the formula of the plural forms. Returns the one of the language if the header has none."""
        found, formula = _FORMS.search(header), ""
        if found is None:
            language = primary_language(self._reading.target_lang)
            formula = next((key for key, names in _PLURALS.items() if language in names.split()), _TWO_FORMS)
            found = _FORMS.search(formula)
        forms, rule = found.groups()  # type: ignore[union-attr]
        self._forms = int(forms)
        with contextlib.suppress(ValueError):  # no formula
            form = gettext.c2py(rule or "n != 1")
            self._has_form_of_one = all(form(number) for number in range(2, 200))
        return formula

    def _of_message(self, entry: _Entry) -> Iterator[Place]:
        plural, targets = entry.get("msgid_plural"), entry.translations
        changes_all, has_head = self._reading.retranslate or entry.is_fuzzy, False
        for source, target in zip(self._sources(entry), targets, strict=True):
            if target.value and not changes_all:
                continue
            start, head = (target.start, "") if has_head else self._head(entry, target, fuzzy=self._reading.fuzzy)
            for place in self._translated(source.value, start, target.end, head):
                has_head = True
                yield place
        if plural is not None and self._reading.target_lang:
            last = targets[-1]
            for number in range(len(targets), self._forms):  # a template has two forms, whatever a language needs
                start, head = (last.end, "") if has_head else self._head(entry, last, fuzzy=self._reading.fuzzy)
                head += f"{self._text[max(start, last.start) : last.end]}{self._newline}msgstr[{number}] "
                for place in self._translated(plural.value, start, last.end, head):
                    has_head = True
                    yield place

    def _sources(self, entry: _Entry) -> list[_Field]:
        """What each translation of a message is of: its singular or its plural."""
        singular, plural, count = entry.get("msgid"), entry.get("msgid_plural"), len(entry.translations)
        assert singular is not None
        if plural is None:
            return [singular] * count
        is_singular = self._forms != 1 and self._is_of_any(singular, plural)
        return [singular if is_singular else plural, *[plural] * (count - 1)]

    def _is_of_any(self, singular: _Field, plural: _Field) -> bool:
        """Whether a singular suits all numbers of the first form: "a dog" does not suit 21."""
        return self._has_form_of_one or placeholders(singular.value) == placeholders(plural.value)

    def _translated(self, source: str, start: int, end: int, head: str) -> Iterator[Place]:
        """The places of a message.

        Args:
            head: what stands before its first string.
        """
        head += f'""{self._newline}' if "\n" in source[:-1] else ""
        first, further = (functools.partial(_quoted, begin, self._newline) for begin in (head, self._newline))
        language = self._reading.source_lang
        return places_of(source, start, end, first, further, language=language, has_accelerators=True)

    def _head(self, entry: _Entry, target: _Field, *, fuzzy: bool) -> tuple[int, str]:
        """Where an entry changes first, and what stands from there to its translation.

        Args:
            fuzzy: mark it as one that somebody must look at; otherwise it loses that mark.
        """
        changes: list[tuple[int, int, str]] = []
        first = self._text.rfind("\n", 0, entry.fields[0].start) + 1
        added = (first, first, f"#, fuzzy{self._newline}")
        for place, comment in entry.comments:
            end = place + len(comment)
            if comment.startswith("#|") and entry.is_fuzzy:
                changes.append((place, end, ""))
            elif comment.startswith("#,") and not _FUZZY.search(comment):
                added = (place, place + 2, "#, fuzzy,")
            elif comment.startswith("#,") and not fuzzy:
                flags = _FUZZY.sub("", comment)
                changes.append((place, end, flags if flags.strip("# \t\r\n") else ""))
        if fuzzy and not entry.is_fuzzy:
            changes.append(added)
        kept, done = "", changes[0][0] if changes else target.start
        for start, end, text in changes:
            kept += self._text[done:start] + text
            done = end
        return changes[0][0] if changes else target.start, kept + self._text[done : target.start]


def _lines(text: str) -> list[str]:
    """The lines of a string that have words, without tags and accelerators."""
    lines = lines_of(_ADDED_ACCELERATOR.sub("", text), has_accelerators=True)
    return [line.unit.text for line in lines if line.unit is not None]


def _quoted(head: str, newline: str, text: str) -> str:
    return head + newline.join(f'"{line.translate(_ESCAPES)}"' for line in _LINES.findall(text) or [""])
