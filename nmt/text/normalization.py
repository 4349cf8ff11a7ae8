"""Normalising text in linear time: Unicode normal forms C and KC, and the punctuation of Moses as in sacremoses."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable
from typing import Literal

# Python sorts the marks of a letter by insertion sort. For shorter lines, that takes at most a millisecond.
_LONG_LINE = 1_000
_MANY_MARKS = 30
"""More marks than any script puts on one letter (Unicode Standard Annex 15, Stream-Safe Text Format)."""
_BLOCKS_OF_MARKS = range(0x300, 0x20000)
# They have no combining class, but decompose into marks that have one.
_COMPOSED_MARKS = "\u0f73\u0f75\u0f81"

_DOTS_BEFORE_QUOTE = r'(\.+)"(\s*[^<])'
# Matches like the pattern above, or else a whole stretch of dots, so that no dot is read twice.
_DOTS = re.compile(r'(\.++)(?:"(\s*[^<]))?')
# Characters that may become a quotation mark. In a line without any, the step for dots is skipped.
_QUOTE = re.compile("[\"'`´„“”‘’‚«»]")


def nfc(line: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    """The line in normal form C, or in form KC."""
    if line.isascii():
        return line
    if len(line) > _LONG_LINE:
        line = _many_marks().sub(_in_canonical_order, line)
    return unicodedata.normalize(form, line)


def is_composed(line: str) -> bool:
    """Whether a line is in normal form C."""
    return unicodedata.is_normalized("NFC", line)


def has_forms(line: str) -> bool:
    """Whether normal form C or D of a line differs from the line."""
    return not (line.isascii() or (is_composed(line) and unicodedata.is_normalized("NFD", line)))


def marks() -> str:
    """All characters that normalisation may reorder."""
    return "".join(filter(unicodedata.combining, map(chr, _BLOCKS_OF_MARKS))) + _COMPOSED_MARKS


@functools.cache
def _many_marks() -> re.Pattern[str]:
    mark = f"[{re.escape(marks())}]"
    return re.compile(f"{mark}{mark}{{{_MANY_MARKS - 1},}}")


def _in_canonical_order(stretch: re.Match[str]) -> str:
    decomposed = "".join(unicodedata.normalize("NFD", mark) for mark in stretch[0])
    return "".join(sorted(decomposed, key=unicodedata.combining))


def punctuation_normalizer(
    language: str, *, replaces_unicode: bool = False, removes_control: bool = True, as_perl: bool = False
) -> Callable[[str], str]:
    """The Moses steps of a language as one function: normalise punctuation, then remove non-printing characters.

    Args:
        as_perl: do exactly what the scripts do. sacremoses makes ``’`` an apostrophe, not a quotation mark, strips
            lines, moves the quotation marks of few languages and not those at the end, and knows all digits.
        replaces_unicode: replace the marks of ``replace-unicode-punctuation.perl`` first.
        removes_control: remove non-printing characters last.
    """
    from sacremoses import MosesPunctNormalizer

    moses = MosesPunctNormalizer(lang=language, perl_parity=as_perl)
    steps = moses.substitutions
    if as_perl and language not in ("en", "cs", "cz", "de", "es", "fr"):
        steps = [*steps[:-1], *moses.DE_ES_FR_QUOTATION_FOLLOWED_BY_COMMA, steps[-1]]  # that of numbers is the last
    with_quotes = [
        (_DOTS, _quote_before_dots)
        if pattern == _DOTS_BEFORE_QUOTE
        else (re.compile(pattern, re.ASCII if as_perl else 0), replacement)
        for pattern, replacement in steps
    ]
    without = [step for step in with_quotes if step[0] is not _DOTS]

    def normalize(line: str) -> str:
        if replaces_unicode:
            line = moses.replace_unicode_punct(line)
        line += "\n" * as_perl  # which is a character behind a quotation mark
        for pattern, replacement in with_quotes if _QUOTE.search(line) else without:
            line = pattern.sub(replacement, line)
        if removes_control:
            line = moses.remove_control_chars(line)
        return line.removesuffix("\n") if as_perl else line.strip()

    return normalize


def _quote_before_dots(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'"{found[1]}{found[2]}'
