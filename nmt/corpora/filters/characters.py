"""Filters that look at the characters of each side: control characters, the share of letters, long words."""

from __future__ import annotations

import re
import unicodedata

from nmt.corpora.filters.letters import count_letters
from nmt.corpora.filters.pair_filter import Finder, Pair
from nmt.languages import is_unspaced

# Category Cc except tab.
_CONTROL = re.compile("[\0-\x08\x0a-\x1f\x7f-\x9f]")
# What opens or closes a bidirectional embedding, override or isolate.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_EITHER = re.compile(f"{_CONTROL.pattern}|{_BIDI.pattern}".replace("]|[", ""))
_CLOSING = {"\u202c": "embedding", "\u2069": "isolate"}
_ISOLATES = "\u2066\u2067\u2068"


def has_control_characters(pair: Pair) -> bool:
    """Whether a side has a control character except tab, or a bidirectional mark that is not closed or not opened."""
    return any(_EITHER.search(line) and (_CONTROL.search(line) or _is_unbalanced(line)) for line in pair)


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


def few_letters(share: float) -> Finder:
    """Find a side with a smaller share of letters among the characters that are not white space."""

    def found(pair: Pair) -> bool:
        return any(_has_few_letters(line, share) for line in pair)

    return found


def _has_few_letters(line: str, share: float) -> bool:
    letters = count_letters(line)
    if letters >= share * len(line):
        return False
    required = share * len("".join(line.split()))
    if letters >= required:
        return False
    # In many scripts, vowel signs are marks.
    marks = 0 if line.isascii() else sum(unicodedata.category(character)[0] == "M" for character in line)
    return letters + marks < required


def long_words(source_lang: str, target_lang: str, limit: int) -> Finder:
    """Find a word of more than ``limit`` characters in a language that is written with spaces between words."""
    looks_at = [not is_unspaced(language) for language in (source_lang, target_lang)]

    def found(pair: Pair) -> bool:
        return any(
            has_spaces and len(line) > limit and max(map(len, line.split()), default=0) > limit
            for line, has_spaces in zip(pair, looks_at, strict=True)
        )

    return found
