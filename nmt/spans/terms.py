"""Terms of a glossary: where they stand in a text, and how its translation is made to have theirs."""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import regex

from nmt.errors import DataError
from nmt.spans.kept import is_in_word, word_around
from nmt.spans.links import Link, Overlaps
from nmt.spans.positions import LETTER
from nmt.text.case import capitalized, lower
from nmt.text.lines import read_lines

_LETTER = regex.compile(LETTER, regex.V1)
_WORD = regex.compile(rf"{LETTER}+|\S", regex.V1)
"""A word, or a character of a script without spaces."""
_WITHIN_WORD = regex.compile(rf"(?<={LETTER})[-·]?(?={LETTER})|(?<={LETTER}[-·])(?={LETTER})", regex.V1)
"""A place at which a word goes on, also one with a hyphen or a middle dot, such as T-shirt and Catalan col·legi."""
_BREAK = re.compile(r"[\t\r\n]")
_CLUSTER = regex.compile(r"(?s:.)[\p{M}\u1160-\u11ff\uff9e\uff9f\u00ad\u0640]*")
"""A character with what may be typed behind it as a part of it: combining marks, the other letters of a Hangul
syllable, the marks of voiced kana, a soft hyphen and the Arabic stroke that stretches a word."""
_TYPED = str.maketrans(
    {"’": "'", "ʼ": "'", "‘": "'", "ʻ": "'", "‐": "-", "\u00ad": None, "\u0640": None}
    | {mark: None for mark in map(chr, range(0x591, 0x671)) if unicodedata.combining(mark)}
)
"""What is typed in several ways, or may be left out, as the vowels of Hebrew and Arabic are."""
_SENTENCE_ENDS = frozenset(".!?…")
_ENDING = 2
"""So many letters behind a term may be its ending."""
_NEAR = 20
"""So many words around the place of a term may be it, although nothing says that they come from it."""
_STEM = 4
"""Terms of fewer letters have no endings."""
_PROCLITICS = re.compile("[والبكف]{1,4}|[והבכלמש]{1,4}")
"""Articles, prepositions and conjunctions that Arabic and Hebrew write as a part of the following word."""
_ROOT = 3
"""Words of fewer letters have none of these."""

Verdict = Literal["written", "replaced", "inserted"]
"""written: the model wrote the term itself; replaced: it stands for another word of the model; inserted: nothing of the
translation comes from the term, so that its place is a guess."""


class Term(NamedTuple):
    """A term in a text."""

    start: int
    end: int
    targets: tuple[str, ...]
    """Its translations; the first one is put where the model writes none of them."""


class TermFinding(NamedTuple):
    """What became of a term."""

    source: str
    target: str
    verdict: Verdict


class Obeyed(NamedTuple):
    """A translation with the terms of a glossary."""

    text: str
    links: list[Link]
    findings: list[TermFinding]


class Glossary:
    """Terms and their translations.

    A term without capitals matches in any case, one with capitals as it is written, but for a capital at its beginning.
    Forms of a character count as one, such as é as one character or as two. A term matches whole words; of terms that
    overlap, the longest does.
    """

    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """Take terms with their translations; a term may have several."""
        targets: dict[str, dict[str, None]] = {}
        for source, target in entries:
            targets.setdefault(_folded(source)[0], {})[unicodedata.normalize("NFC", target)] = None
        self._targets = {source: tuple(found) for source, found in targets.items()}
        lengths: dict[str, set[int]] = {}
        for source in targets:
            first = _WORD.search(source)
            lengths.setdefault(_caseless(first[0]) if first else "", set()).add(len(source))
        self._lengths = {word: sorted(some, reverse=True) for word, some in lengths.items()}
        """The lengths of the terms that begin with a word, the longest first."""
        self.fingerprint = hashlib.sha256(repr(self._targets).encode()).hexdigest()[:16]
        """Differs between glossaries with different terms."""

    @staticmethod
    def read(path: Path) -> Glossary:
        """Read lines of a term, a tab and its translation.

        Raises:
            DataError: a line has another form, or the file cannot be read.
        """
        return Glossary(entries_of((line.split("\t") for line in read_lines(path)), str(path)))

    def terms(self, text: str) -> list[Term]:
        """The terms of a text, in order."""
        folded, places = _folded(text)
        matches = []
        for word in _WORD.finditer(folded):
            start = word.start()
            for length in self._lengths.get(_caseless(word[0]), ()):
                targets = self._targets_of(folded[start : start + length])
                if targets and all(_is_edge(folded, places, place) for place in (start, start + length)):
                    matches.append((-length, start, targets))
        found, taken = list[Term](), bytearray(len(folded))
        for length, start, targets in sorted(matches):
            if not any(taken[start : start - length]):
                taken[start : start - length] = b"x" * -length
                found.append(Term(places[start], places[start - length], targets))
        return sorted(found)

    def _targets_of(self, part: str) -> tuple[str, ...] | None:
        # Only terms of Turkish have an ı, so its rule of case, by which I is the capital of ı, does no harm to others.
        languages = ("", "tr")
        forms = [part, *(form for one in languages for form in (lower(part[:1], one) + part[1:], lower(part, one)))]
        return next((targets for form in forms if (targets := self._targets.get(form))), None)


def _caseless(word: str) -> str:
    """A word in the form that is the same in any case, in Turkish too."""
    return lower(word, "tr").replace("ı", "i")


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """A text in the form in which terms are compared, and the place in the text of each character, and of its end."""
    if text.isascii():
        return text, range(len(text) + 1)
    forms, places = list[str](), list[int]()
    for cluster in _CLUSTER.finditer(text):
        forms.append(unicodedata.normalize("NFKC", cluster[0]).translate(_TYPED))
        places += [cluster.start()] * len(forms[-1])
    return "".join(forms), [*places, len(text)]


def _is_edge(folded: str, places: Sequence[int], place: int) -> bool:
    """Whether no word goes on at a place of a folded text, and no character that became several."""
    is_within = 0 < place <= len(folded) and places[place - 1] == places[min(place, len(folded))]
    return not is_within and place <= len(folded) and not _WITHIN_WORD.match(folded, place)


def entries_of(
    rows: Iterable[Sequence[str]], name: str, *, separator: Literal["\t", ","] = "\t"
) -> list[tuple[str, str]]:
    """The terms in the rows of a table, each with its translation. Rows may be empty.

    Args:
        name: what errors call the table.
        separator: what stands between two fields.

    Raises:
        DataError: a row has another form, or there are no terms.
    """
    entries, called = [], {"\t": "tab", ",": "comma"}[separator]
    for number, row in enumerate(rows, start=1):
        fields = [field.strip() for field in row]
        if not any(fields):
            continue
        if len(fields) != 2 or not all(fields) or _BREAK.search("".join(fields)):
            given = separator.join(row)
            raise DataError(f"{name}, line {number:,}: expected a term, a {called} and its translation, got {given!r}.")
        entries.append((fields[0], fields[1]))
    if not entries:
        raise DataError(f"{name}: has no terms. Write one per line: a term, a {called} and its translation.")
    return entries


def obey(source: str, output: str, links: Sequence[Link], terms: Sequence[Term], target_lang: str = "") -> Obeyed:
    """Make a translation have the terms of its source, each once.

    Where the model wrote a term, with another ending perhaps or in a compound, nothing changes. Else the term stands
    for the words that come from it, without the ending that the sentence may ask for.

    Args:
        links: which characters of the translation come from which of the source.
        terms: in order.
        target_lang: the language code of the translation.
    """
    origins = _Origins(output, links, terms)
    places = _written(origins, terms)
    taken = set().union(*(range(*place) for place in places.values()))
    findings: list[Verdict] = ["written"] * len(terms)
    for number, term in enumerate(terms):
        if number in places:
            continue
        form = _other_form(origins.words_by_term[number], source, term, origins, taken)
        place = _words_from(number, origins, taken) if form is None else None
        if form is None and place is None:  # perhaps the alignment misses it
            place = origins.behind_what_stood_before(term)
            form = _other_form(origins.words_near(place[0]), source, term, origins, taken)
        if form is not None:
            taken.update(*(range(*span) for span in form))
        elif place is not None:
            findings[number] = "replaced" if place[0] < place[1] else "inserted"
            places[number] = place
            taken.update(range(*place))
    text, found, end = "", list[Link](), 0
    moved = sorted(links)
    for number, (start, stop) in sorted(places.items(), key=lambda each: (each[1], each[0])):
        term = terms[number]
        shift = len(text) - end
        between = moved[bisect_left(moved, (end,)) : bisect_left(moved, (start,))]
        found += [Link(one.start + shift, min(one.end, start) + shift, *one[2:]) for one in between]
        text += output[end:start]
        is_own = findings[number] == "written"
        written = output[start:stop] if is_own else _fitted(term, output, start, stop, text, target_lang)
        found.append(Link(len(text), len(text) + len(written), term.start, term.end))
        text, end = text + written, max(end, stop)
    shift = len(text) - end
    found += [Link(one.start + shift, one.end + shift, *one[2:]) for one in moved if one.start >= end]
    named = [
        TermFinding(source[term.start : term.end], term.targets[0], verdict)
        for term, verdict in zip(terms, findings, strict=True)
    ]
    return Obeyed(text + output[end:], found, named)


class _Origins:
    """The words of a translation and the terms that they come from. Lines may have thousands of both."""

    def __init__(self, output: str, links: Sequence[Link], terms: Sequence[Term]) -> None:
        self.output, self.links = output, links
        numbers = Overlaps(range(len(terms)), lambda number: terms[number][:2])
        self.terms_by_link = [numbers.of(*one[2:]) for one in links]
        """The numbers of the terms that each link comes from."""
        self.links_at = Overlaps(range(len(links)), lambda link: links[link][:2])
        """The numbers of the links to characters of the translation."""
        self.words = [word.span() for word in _WORD.finditer(output)]
        self.links_by_word = [self.links_at.of(*word) for word in self.words]
        words_by_term: list[set[int]] = [set() for _ in terms]
        for word, near in enumerate(self.links_by_word):
            for number in itertools.chain.from_iterable(self.terms_by_link[link] for link in near):
                words_by_term[number].add(word)
        self.words_by_term = list(map(sorted, words_by_term))
        """The numbers of the words that come from each term, at least in part."""
        self._ended = sorted(links, key=lambda one: (one.source_end, one.end))

    def behind_what_stood_before(self, term: Term) -> tuple[int, int]:
        """The empty place behind the words that come from what stands before a term."""
        before = bisect_right(self._ended, term.start, key=lambda one: one.source_end)
        place = self._ended[before - 1].end if before else 0
        _, place = word_around(self.output, place, place)
        return place, place

    def words_near(self, place: int) -> range:
        """The numbers of the words around a place."""
        word = bisect_left(self.words, (place,))
        return range(max(0, word - _NEAR), min(word + _NEAR, len(self.words)))


def _written(origins: _Origins, terms: Sequence[Term]) -> dict[int, tuple[int, int]]:
    """Where the model wrote terms, by their numbers; of several places, those that come from the terms."""
    found: dict[int, tuple[int, int]] = {}
    taken: set[int] = set()
    by_targets = sorted(range(len(terms)), key=lambda number: (-len(terms[number].targets[0]), terms[number].targets))
    for targets, numbers in groupby(by_targets, key=lambda number: terms[number].targets):
        alike = list(numbers)
        come: Counter[tuple[int, tuple[int, int]]] = Counter()
        free = set[tuple[int, int]]()
        for target in targets:
            copies = [
                copy for copy in _copies(target, origins.output) if copy not in free and taken.isdisjoint(range(*copy))
            ]
            free.update(copies)
            for copy in copies:
                for link in origins.links_at.of(*copy):
                    one = origins.links[link]
                    for number in origins.terms_by_link[link]:
                        if terms[number].targets == targets:
                            come[number, copy] += min(one.end, copy[1]) - max(one.start, copy[0])
        for _, number, copy in sorted((-size, *pair) for pair, size in come.items() if size):
            if number not in found and taken.isdisjoint(range(*copy)):
                found[number] = copy
                taken.update(range(*copy))
        # Terms that no copy comes from get what is left, in order.
        left = iter(sorted(free))
        for number in alike:
            if number not in found and (rest := next((each for each in left if taken.isdisjoint(range(*each))), None)):
                found[number] = rest
                taken.update(range(*rest))
    return found


def _other_form(
    numbers: Iterable[int], source: str, term: Term, origins: _Origins, taken: set[int]
) -> list[tuple[int, int]] | None:
    """Those of some words that are another form of a term's translation, as frohe is one of froher; none of them if a
    longer word holds it, as Schlittenhund does that of dog. None if the model wrote neither, or copied the term.
    """
    spans = [origins.words[number] for number in numbers]
    copied = source[term.start : term.end].lower()  # Banana is no form of Banane
    words = [
        (span, word)
        for span in spans
        if (word := origins.output[slice(*span)]).lower() != copied and taken.isdisjoint(range(*span))
    ]
    for target in term.targets:
        if any(character.isalpha() and not _LETTER.match(character) for character in target):
            continue  # of a script without spaces: each character is a word, and none has endings
        longer = (word.lower() for _, word in words if len(word) > len(target) + _ENDING)
        if len(target) >= _STEM and any(target.lower() in word for word in longer):
            return []
        parts = list(map(_bare, _WORD.findall(target)))
        if all(any(_are_forms(part, _bare(word)) for _, word in words) for part in parts):
            return [span for span, word in words if any(_are_forms(part, _bare(word)) for part in parts)]
    return None


def _bare(word: str) -> str:
    """A word in lower case without accents, which may come and go with endings: Arzt, Ärzte."""
    return "".join(itertools.filterfalse(unicodedata.combining, unicodedata.normalize("NFD", word.lower())))


def _are_forms(one: str, other: str) -> bool:
    """Whether two bare words are equal but for their endings."""
    lengths = len(one), len(other)
    stem = max(_STEM, *(length - _ENDING for length in lengths))
    return one == other or (min(lengths) >= stem and one[:stem] == other[:stem])


def _copies(target: str, output: str) -> list[tuple[int, int]]:
    """Where a term stands as a word, or as one with an ending or, in Arabic and Hebrew, with an article."""
    found = []
    for copy in re.finditer(re.escape(target), output, re.IGNORECASE if target.islower() else 0):
        start, end = copy.span()
        longest = end + (_ENDING if len(target) >= _STEM else 0)
        while end < longest and is_in_word(output, end):
            end += 1
        first, _ = word_around(output, start, start)
        if len(target) >= _ROOT and _PROCLITICS.fullmatch(output, first, start):
            start = first
        if not (is_in_word(output, start) or is_in_word(output, end)):
            found.append((start, end))
    return found


def _words_from(number: int, origins: _Origins, taken: set[int]) -> tuple[int, int] | None:
    """The adjacent words that come from a term: those that hold most of what does."""
    best: tuple[int, int, int] | None = None
    start = size = 0
    before = -1
    for word in origins.words_by_term[number]:
        begin, end = origins.words[word]
        size = size if word == before + 1 else 0
        before = word
        come = other = 0
        for link in origins.links_by_word[word]:
            one = origins.links[link]
            length = min(one.end, end) - max(one.start, begin)
            come, other = (come + length, other) if number in origins.terms_by_link[link] else (come, other + length)
        if not come or come < other or not taken.isdisjoint(range(begin, end)):
            size = 0
            continue
        if not origins.output[begin].isalnum():  # a mark belongs to a term only between its words
            continue
        start = begin if not size else start
        size += come
        if best is None or size > best[0]:
            best = (size, start, end)
    return None if best is None else best[1:]


def _fitted(term: Term, output: str, start: int, stop: int, before: str, language: str) -> str:
    """The first translation of a term, with spaces where it is inserted, and a capital where a sentence had one."""
    written = term.targets[0]
    if start == stop:
        space = " " if output and _LETTER.match(written) else ""
        return f"{space}{written}" if start else f"{written}{space}"
    behind_words = len(before)
    while behind_words and not before[behind_words - 1].isalnum():
        behind_words -= 1
    is_first = not behind_words or not _SENTENCE_ENDS.isdisjoint(before[behind_words:])
    is_capital = is_first and output[start].isupper() and written.split()[0].islower()
    return capitalized(written, language) if is_capital else written
