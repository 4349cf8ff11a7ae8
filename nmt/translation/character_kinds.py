"""The kind of each character of a line, so that regular expressions over these kinds find spans of text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

import regex

from nmt.text import languages
from nmt.translation.long_lines import belong_together

IsUnknown = Callable[[str], bool]
"""Whether a character, with its combining marks, lacks a piece in the vocabulary."""

SPACE, LETTER, UNSPACED, INNER, OTHER, UNKNOWN_LETTER, UNKNOWN = " wucpWX"
"""One symbol per character. ``UNSPACED`` is a letter of a script without spaces, ``INNER`` a mark within words."""
_INNER_CHARACTERS = "-'’.@_"
UNSPACED_SCRIPTS = regex.compile(f"[{languages.UNSPACED}]")
"""A character of a script without spaces between words."""


def kinds_of(line: str, is_unknown: IsUnknown) -> str:
    """The kind of each character."""
    found = list(clusters(line))
    kinds = {cluster: kind_of(cluster, is_unknown(cluster)) * len(cluster) for cluster in set(found)}
    return "".join(kinds[cluster] for cluster in found)


def clusters(line: str) -> Iterator[str]:
    """Characters with their combining marks. Emoji sequences and flags are one cluster each."""
    begin = 0
    for end in range(1, len(line) + 1):
        if end == len(line) or not belong_together(line[end - 1], line[end]):
            yield line[begin:end]
            begin = end


def kind_of(cluster: str, unknown: bool = False) -> str:
    """The kind of a character with its combining marks."""
    character = cluster[0]
    is_letter = character.isalnum() or unicodedata.category(character)[0] == "M"
    if unknown:
        return UNKNOWN_LETTER if is_letter and not UNSPACED_SCRIPTS.match(character) else UNKNOWN
    if character.isspace():
        return SPACE
    if is_letter:
        return UNSPACED if UNSPACED_SCRIPTS.match(character) else LETTER
    return INNER if character in _INNER_CHARACTERS else OTHER


def is_text(kinds: str) -> bool:
    """Whether there is a known letter or digit."""
    return LETTER in kinds or UNSPACED in kinds


def is_spaced(*kinds: str) -> bool:
    """Whether all kinds are letters of scripts with spaces."""
    return all(kind == LETTER for kind in kinds)
