"""Recognises translations that have gone wrong: empty, looping, copied, incomplete, far too short or too long.

Pure functions of a source and its translation. A bound is drawn where a sound translation does not come: a guard that
doubts good translations would cost time, and might change them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.sentences import sentences
from nmt.text import is_unspaced, primary_language

Problem = Literal["empty", "looping", "copied", "incomplete", "too_short", "too_long"]

# Poets repeat a word three times, hardly four, and a loop once begun seldom ends before the limit.
_LEAST_REPEATS = 4
_LEAST_LOOPING_PIECES = 6
# A looping source ("ha ha ha ha") may be translated by a loop, but not by one that is far longer.
_LONGER_LOOP = 2
# Names, numbers, addresses and titles are the same in both languages, and do not count. Of what is left, so many
# different words must be there, and so large a share of them in the translation.
_LEAST_WORDS = 6
_COPIED_SHARE = 0.8
# Of European and East Asian languages over one vocabulary, either has less than twice the pieces of the other in
# nearly every sentence; the slack lets short ones, where a single word may become many pieces, pass.
_SHORTEST_SHARE, _SHORT_SLACK = 1 / 4, 2
_LONGEST_SHARE, _LONG_SLACK = 2, 15


@dataclass(frozen=True)
class Finding:
    """What the guard found in the translation of a line."""

    problems: tuple[Problem, ...]
    """Of the candidate that the search preferred; of all parts of a long line."""
    repaired: bool
    """Whether a translation without problems took its place, in every part with problems."""


@dataclass(frozen=True)
class Languages:
    """The pair that is translated between, as codes."""

    source: str
    target: str

    @property
    def differ(self) -> bool:
        """Whether a translation that equals its source is suspicious; not where they are not known."""
        source, target = primary_language(self.source), primary_language(self.target)
        return bool(source and target) and source != target


def problems(
    source: str,
    source_pieces: Sequence[str],
    output: str,
    output_pieces: Sequence[str],
    languages: Languages,
    *,
    short_ratio: float = 0.0,
) -> tuple[Problem, ...]:
    """What is wrong with a translation; mostly nothing.

    Args:
        source: a line with text in it.
        short_ratio: target pieces per source piece that few training pairs fall short of; 0 where that is not known.
    """
    if not output.strip():
        return ("empty",)
    found: list[Problem] = []
    if _is_looping(source_pieces, output_pieces):
        found.append("looping")
    if languages.differ and _is_copied(source, output, languages.source):
        found.append("copied")
    is_short = len(output_pieces) < len(source_pieces) * short_ratio
    if is_short and _lacks_sentences(source, output, languages):
        found.append("incomplete")
    if len(output_pieces) + _SHORT_SLACK < len(source_pieces) * _SHORTEST_SHARE:
        found.append("too_short")
    if len(output_pieces) > len(source_pieces) * _LONGEST_SHARE + _LONG_SLACK:
        found.append("too_long")
    return tuple(found)


def _is_looping(source_pieces: Sequence[str], output_pieces: Sequence[str]) -> bool:
    # Without so few different pieces there is no loop: most translations are done with here.
    if len(output_pieces) < _LEAST_LOOPING_PIECES or len(set(output_pieces)) > _most_different(len(output_pieces)):
        return False
    loop = longest_loop(output_pieces, _LEAST_REPEATS, _LEAST_LOOPING_PIECES)
    return loop > 0 and loop > _LONGER_LOOP * longest_loop(source_pieces, 2, 2)


def _most_different(length: int) -> int:
    """How many different pieces there can be where the shortest loop is among them."""
    return length - _LEAST_LOOPING_PIECES + _LEAST_LOOPING_PIECES // _LEAST_REPEATS


def longest_loop(pieces: Sequence[str], repeats: int, least: int) -> int:
    """Characters of the longest stretch that says the same at least so many times in a row.

    Stretches of fewer than ``least`` pieces do not count. In characters, since the same text may be few long pieces
    here and many short ones there.
    """
    longest = 0
    for period in range(1, len(pieces) // repeats + 1):
        needed = max(repeats * period, least)
        begin = 0
        for index in range(period, len(pieces) + 1):
            if index < len(pieces) and pieces[index] == pieces[index - period]:
                continue
            if index - begin >= needed:
                longest = max(longest, sum(map(len, pieces[begin:index])))
            begin = index - period + 1
    return longest


def _lacks_sentences(source: str, output: str, languages: Languages) -> bool:
    # Two sentences are often translated by one. Only one that is short, too, says less.
    count = len(sentences(source, languages.source))
    return count > 1 and len(sentences(output, languages.target)) < count


def _is_copied(source: str, output: str, source_lang: str) -> bool:
    words = _telling_words(source, source_lang)
    if len(words) < _LEAST_WORDS:
        return False
    others = _telling_words(output, source_lang)
    return (words & others).total() >= _COPIED_SHARE * max(words.total(), others.total())


def _telling_words(text: str, language: str) -> Counter[str]:
    """The words that a translation would not leave as they are: in lower case, or of a script without."""
    if is_unspaced(language):
        return Counter(character for character in text if character.isalpha() and not character.isascii())
    return Counter(word for word in text.split() if word == word.lower() and any(map(str.isalpha, word)))
