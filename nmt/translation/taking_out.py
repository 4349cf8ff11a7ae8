"""Takes unknown characters out of a line, and with them what is copied anyway: labels, footnotes, marks at its ends.

Pure functions over text; the caller says which characters are unknown.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from nmt.text import verbatim
from nmt.text.sentences import FOOTNOTE, LABEL_FIRST, copied_ends, has_words
from nmt.translation.character_kinds import UNKNOWN, UNKNOWN_LETTER, IsUnknown, is_spaced, is_text, kinds_of

# No group is possessive: Python before 3.11.5 matches such groups wrongly (CPython issue 106052).
_WORD = re.compile(r"[wW]++(?:c[wW]++)*")
_RUN = re.compile(r"(?<! ) *+X[X ]*+")
_SPACES = re.compile("  +")
# A number with the sign, currency or unit that is attached to it, such as -5 °C.
_SIGN = r"[^\w\s.,:;!?…'\"“”„«»‘’‹›()\[\]{}¿¡*/。、，]"
_NUMBER = re.compile(
    rf"(?<!\w)(?:{_SIGN}|[€£¥₹] )?\d+(?:[^\w ]\d+)*(?:(?:[ \u00a0\u202f]?[°€£¥₹]|{_SIGN})[A-Za-z]{{0,2}}(?!\w))?"
)
# Invisible characters beside a letter or digit: control characters, soft hyphens, joiners and direction marks. Behind
# it also variation selectors, but for keycaps; and no-break spaces before a mark.
_INVISIBLE = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
)
_INVISIBLE_IN_WORD = re.compile(
    rf"(?<=[^\W_])(?!\ufe0f?\u20e3)[{_INVISIBLE}\ufe00-\ufe0f\U000e0100-\U000e01ef]+|[{_INVISIBLE}]+(?=[^\W_])"
    r"|[\u00a0\u202f](?=[,.;:!?…])"
)
_ROMAN_NUMERAL = re.compile("(?=[IVXLCDM]{2})M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_BRACKETS = frozenset(
    {"()", "[]", "{}", '""', "''", "«»", "»«", "“”", "„“", "‘’", "‚‘", "（）", "「」", "『』", "《》"}
)


@dataclass(frozen=True)
class Run:
    """A run of adjacent unknown characters inside a line."""

    text: str
    """The characters, with the white space around them."""
    place: int
    """The number of characters of the known text before the run."""
    is_attached: bool
    """Whether a word follows without white space."""

    @property
    def attaches_right_only(self) -> bool:
        """Whether the run belongs only to the following word, as an opening quotation mark does."""
        return self.is_attached and self.text[0].isspace()


@dataclass(frozen=True)
class Taken:
    """A line without its runs of unknown characters, and these runs."""

    text: str
    """The known text; empty if the line is to be copied unchanged."""
    first: str
    """The run at the beginning of the line, if any. The whole line if it is to be copied unchanged."""
    inner: tuple[Run, ...]
    last: str
    """The run at the end of the line, if any."""
    tag: str = ""
    """The language tag of the line, which belongs to no run."""

    @property
    def source(self) -> str:
        """The text for the model: the known text after the language tag."""
        return f"{self.tag} {self.text}" if self.tag and self.text else self.text


def is_copied(text: str) -> bool:
    """Whether a text needs no translation: it has no letters, but for those of addresses, placeholders and numerals."""
    rest = verbatim.without_spans(text).strip()
    return not has_words(rest) or _ROMAN_NUMERAL.fullmatch(rest) is not None


def take_out(line: str, is_unknown: IsUnknown, language: str = "") -> Taken | None:
    """Take out of a line its unknown characters, references to footnotes, and what is copied at its ends.

    A run is unknown characters and the white space around them. A word with an unknown letter is unknown as a whole; so
    are a number with an unknown sign, an address or placeholder with an unknown character, and the brackets or
    quotation marks around unknown words. Invisible characters in words are left out. If nothing that needs translation
    would be left, the whole line is taken.

    Args:
        language: the language code of the line.

    Returns:
        None if the line has words and nothing is taken.
    """
    whole = line
    line = _INVISIBLE_IN_WORD.sub(lambda found: "".join(itertools.filterfalse(is_unknown, found[0])), line)
    kinds = _taken(kinds_of(line, is_unknown), [found.span() for found in FOOTNOTE.finditer(line)])
    wholes = [*(found.span() for found in _NUMBER.finditer(line)), *verbatim.spans(line)]
    kinds = _taken(kinds, [span for span in wholes if {UNKNOWN, UNKNOWN_LETTER} & {*kinds[slice(*span)]}])
    kinds = _with_brackets(line, _WORD.sub(_whole_word, kinds))
    label = LABEL_FIRST.match(line)
    begin, end = copied_ends(line, language)
    if label and UNKNOWN in kinds[: label.end()]:  # the model would read the rest of the label
        begin = max(begin, label.end())
    kinds = _taken(kinds, [(0, begin), (end, len(line))])
    if is_copied("".join(itertools.compress(line, map(UNKNOWN.__ne__, kinds)))):
        return Taken("", whole, (), "")
    spans = [match.span() for match in _RUN.finditer(kinds)]
    if not spans:
        return Taken(line, "", (), "") if line != whole else None
    text, first, last = "", "", ""
    inner = []
    end = 0
    for begin, run_end in spans:
        text += _SPACES.sub(" ", line[end:begin])
        run, end = line[begin:run_end], run_end
        if begin == 0:
            first = run
        elif end == len(line):
            last = run
        else:
            text = text.lstrip(" ")
            inner.append(Run(run, len(text), not run[-1].isspace() and is_text(kinds[end])))
            text += _between(run, line[begin - 1], line[end], of_words=is_spaced(kinds[begin - 1], kinds[end]))
    text += _SPACES.sub(" ", line[end:])
    return Taken(text.strip(" "), first, tuple(inner), last)


def _taken(kinds: str, spans: Iterable[tuple[int, int]]) -> str:
    marked = list(kinds)
    for begin, end in spans:
        marked[begin:end] = UNKNOWN * (end - begin)
    return "".join(marked)


def _whole_word(kinds: re.Match[str]) -> str:
    # A name is copied whole or not at all.
    return UNKNOWN * len(kinds[0]) if UNKNOWN_LETTER in kinds[0] else kinds[0]


def _with_brackets(line: str, kinds: str) -> str:
    """The kinds, where brackets and quotation marks around unknown characters are unknown, too."""
    marked = list(kinds)
    for match in _RUN.finditer(kinds):
        begin, end = match.span()
        if begin > 0 and end < len(line) and line[begin - 1] + line[end] in _BRACKETS:
            marked[begin - 1] = marked[end] = UNKNOWN
    return "".join(marked)


def _between(run: str, before: str, after: str, *, of_words: bool) -> str:
    """The text that replaces a run: a space, or nothing beside punctuation and in unspaced text.

    Args:
        before, after: the characters around the run.
        of_words: whether both belong to words that spaces separate.
    """
    if run[0].isspace() and run[-1].isspace():
        return " "
    if run[0].isspace():
        return "" if unicodedata.category(after) in ("Pe", "Pf", "Po") else " "
    if run[-1].isspace():
        return "" if unicodedata.category(before) in ("Ps", "Pi") else " "
    return " " if of_words else ""
