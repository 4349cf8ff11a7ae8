"""What the filters look for in a line or a pair, and the forms of text that they compare."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable
from html.entities import html5

from nmt.corpora.formats import Pair
from nmt.text import verbatim
from nmt.text.languages import is_unspaced, primary_language
from nmt.text.lines import beyond_ascii, comparison_key, length_in_words, words_of

LinePredicate = Callable[[str], bool]
PairPredicate = Callable[[Pair], bool]

_REPLACEMENT_CHARACTER = "\ufffd"


def has_replacement_character(line: str) -> bool:
    """Whether a line has U+FFFD, which replaces bytes that are not UTF-8."""
    return _REPLACEMENT_CHARACTER in line


def is_blank(line: str) -> bool:
    """Whether a line is empty or only white space."""
    return not line or line.isspace()


def too_long(limit: int, language: str) -> LinePredicate:
    """Find a line of more than ``limit`` words, counted alike in all scripts."""
    # No word is shorter than a character.
    return lambda line: len(line) > limit and length_in_words(line) > limit


def lengths_differ(limit: float) -> PairPredicate:
    """Find a pair whose longer side has more than ``limit`` times the words of the shorter."""

    def finds(pair: Pair) -> bool:
        source, target = map(length_in_words, pair)
        return source > limit * target or target > limit * source

    return finds


_ASCII_LETTERS = string.ascii_letters.encode()


def count_letters(line: str) -> int:
    """The number of characters that are letters (category L). Most are ASCII, and bytes are deleted at once."""
    in_bytes = line.encode("utf-8", "replace")
    ascii_letters = len(in_bytes) - len(in_bytes.translate(None, _ASCII_LETTERS))
    return ascii_letters + (0 if line.isascii() else sum(map(str.isalpha, beyond_ascii(line))))


# Category Cc except tab.
_CONTROL = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f]")
# What opens or closes a bidirectional embedding, override or isolate.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_EITHER = re.compile(f"{_CONTROL.pattern}|{_BIDI.pattern}".replace("]|[", ""))
_CLOSING = {"\u202c": "embedding", "\u2069": "isolate"}
_ISOLATES = "\u2066\u2067\u2068"


def has_control_characters(line: str) -> bool:
    """Whether a line has a control character except tab, or a bidirectional mark that is not closed or not opened."""
    return bool(_EITHER.search(line)) and (bool(_CONTROL.search(line)) or _is_unbalanced(line))


def _is_unbalanced(line: str) -> bool:
    still_open = {"embedding": 0, "isolate": 0}
    for mark in _BIDI.findall(line):
        if mark in _CLOSING:
            still_open[_CLOSING[mark]] -= 1
            if still_open[_CLOSING[mark]] < 0:
                return True
        else:
            still_open["isolate" if mark in _ISOLATES else "embedding"] += 1
    return any(still_open.values())


# NUL and zero-width characters without a use in text: word joiner, invisible operators, byte order mark. U+200C and
# U+200D (non-joiner and joiner) are excluded: Persian, Indic scripts and emoji need both.
_INVISIBLE = re.compile("[\0\u2060-\u2064\ufeff]")
_INVISIBLE_OR_ZERO_WIDTH_SPACE = re.compile("[\0\u200b\u2060-\u2064\ufeff]")
# Languages that may put U+200B between words.
_ZERO_WIDTH_SPACED = frozenset({"km", "lo", "my", "th"})


def invisible_characters(value: object, language: str) -> LinePredicate:
    """Find a line with NUL or zero-width characters."""
    is_spaced = primary_language(language) in _ZERO_WIDTH_SPACED
    pattern = _INVISIBLE if is_spaced else _INVISIBLE_OR_ZERO_WIDTH_SPACE
    return lambda line: pattern.search(line) is not None


def few_letters(share: float, language: str) -> LinePredicate:
    """Find a line with a smaller share of letters among the characters that are not white space."""

    def finds(line: str) -> bool:
        letters = count_letters(line)
        if letters >= share * len(line):
            return False
        required = share * len("".join(line.split()))
        if letters >= required:
            return False
        # In many scripts, vowel signs are marks.
        marks = 0 if line.isascii() else sum(unicodedata.category(character)[0] == "M" for character in line)
        return letters + marks < required

    return finds


def long_words(limit: int, language: str) -> LinePredicate:
    """Find a word of more than ``limit`` characters in a language that is written with spaces between words."""
    if is_unspaced(language):
        return lambda line: False
    return lambda line: len(line) > limit and max(map(len, words_of(line)), default=0) > limit


# A tag has no attributes or at least one with a value: "x <y and z> w" is not a tag. All repetitions are possessive, so
# the time is linear.
_TAG = re.compile(
    r"<(?:/?[A-Za-z][\w:.-]*+\s*+(?:/?>|[\w:.-]++\s*+=[^<>]*+>)|!--|!DOCTYPE|!\[CDATA\[|\?xml)", re.IGNORECASE
)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|([A-Za-z][A-Za-z0-9]{1,31}));")


def has_markup(line: str) -> bool:
    """Whether a line has a tag, a comment or an entity of HTML or XML."""
    return ("<" in line and bool(_TAG.search(line))) or ("&" in line and _has_entity(line))


def _has_entity(line: str) -> bool:
    return any(match[1] is None or f"{match[1]};" in html5 for match in _ENTITY.finditer(line))


def numbers_differ(pair: Pair) -> bool:
    """Whether the sides have different numbers, in any order and in the digits of any script."""
    return verbatim.numbers_differ(*pair)


def web_addresses_differ(pair: Pair) -> bool:
    """Whether the sides have different URLs or e-mail addresses."""
    source, target = map(verbatim.web_addresses, pair)
    return source != target


def exactly(pair: Pair) -> str:
    """Both sides as they are, as one text: pairs with equal text are repetitions."""
    return "\n".join(pair)


_MARK = re.compile(r"[^\w\s]|_")
_DIGIT = re.compile(r"\d")


def nearly(pair: Pair) -> str:
    """The :func:`near_key` of both sides, as one text."""
    return "\n".join(map(near_key, pair))


def near_key(line: str) -> str:
    """A line with case folded, punctuation removed, each digit as 0, and white space collapsed."""
    line = _DIGIT.sub("0", comparison_key(line).casefold())
    return " ".join(_MARK.sub(_without_punctuation, line).split())


def _without_punctuation(mark: re.Match[str]) -> str:
    return "" if unicodedata.category(mark[0])[0] == "P" else mark[0]


# Text that was in UTF-8 but was read as Latin-1 or Windows-1252 is repaired: `Ã¤` becomes `ä`.
# Bytes 0x80 to 0x9F in Windows-1252. Five are undefined there; programs read them as control characters.
_WINDOWS = {
    byte: bytes([byte]).decode("cp1252") for byte in range(0x80, 0xA0) if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
}
_TO_LATIN_1 = {ord(character): chr(byte) for byte, character in _WINDOWS.items()}

# The first byte of a character in UTF-8, and one that continues it.
_SUSPICIOUS = re.compile(f"[\u00c2-\u00f4][\u0080-\u00bf{''.join(_WINDOWS.values())}]")
# The end of a word in capitals before a closing mark is the same bytes as a letter: IRMÃ», MANHÃ”.
_END_OF_CAPITALS = re.compile(
    "(?<=[A-Z\u00c0-\u00de])[\u00c2-\u00df][\u00a0\u00bb\u2019\u201d\u203a\u2026\u2013\u2014](?!\\w)"
)
# What no repair may bring about: C1 control characters, and the mark of lost bytes.
_WORSE = re.compile("[\u0080-\u009f\ufffd]")


def repair_encoding(line: str) -> str:
    """The line read as UTF-8, if all of it was read as Latin-1 or Windows-1252, else the line as it is.

    The line is changed only if its bytes in one of the two encodings are valid UTF-8, and the result, read in the same
    encoding, is exactly the line. Text that was misread several times is repaired as often.
    """
    best, current = line, _reread(line)
    while current is not None:
        if not _WORSE.search(current):
            best = current
        current = _reread(current)
    return best


def _reread(line: str) -> str | None:
    """The line read as UTF-8 in place of an encoding of 8 bits; None if it does not look misread."""
    if line.isascii() or not _SUSPICIOUS.search(line):
        return None
    for in_bytes in (line, line.translate(_TO_LATIN_1)):
        try:
            reread = in_bytes.encode("latin-1").decode("utf-8")
        except UnicodeError:
            continue
        is_exact = in_bytes is line or in_bytes.translate(_WINDOWS) == line
        others = sum(not character.isascii() for character in reread)
        if is_exact and others > len(_END_OF_CAPITALS.findall(line)):
            return reread
    return None
