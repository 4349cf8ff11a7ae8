"""Recognises wrong translations: empty, looping, copied, incomplete, far too short or too long, or with changed facts.

Pure functions of a source and its translation. The bounds are such that good translations do not reach them: a guard
that doubts good translations would cost time and might change them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.text import verbatim
from nmt.text.languages import is_unspaced, primary_language
from nmt.text.sentences import sentences

Problem = Literal[
    "empty", "looping", "copied", "incomplete", "too_short", "too_long", "number", "placeholder", "url",
    "refused", "cut_off", "several_lines", "rejected", "no_answer",
]  # fmt: skip
"""The problems of a translation. Those of the last line are of a teacher's answers (:mod:`nmt.synthesis.teacher`)."""

# Good text rarely repeats a word more than three times, and a model's loop seldom ends before the limit.
_MIN_REPEATS = 4
_MIN_LOOPING_PIECES = 6
# A looping source ("ha ha ha ha") may have a looping translation, but not a far longer one.
_LONGER_LOOP = 2
# Names, numbers, addresses and titles are equal in both languages and do not count. A copy has at least this many other
# words, and at least this share of them is in the translation.
_MIN_WORDS = 6
_COPIED_SHARE = 0.8
# Where all words begin with a capital, those of a sentence count too. As articles and prepositions, this share of its
# words have at most three letters, and not all of them are the same. Of names, fewer or nearly all are so short.
_SHORT_WORD = 3
_SHARE_OF_SHORT_WORDS = 1 / 4, 7 / 10
# In European and East Asian languages with a joint vocabulary, nearly every sentence has less than twice the pieces of
# its translation. The slack lets short sentences pass, in which a single word may become many pieces.
_SHORTEST_SHARE, _SHORT_SLACK = 1 / 4, 2
_LONGEST_SHARE, _LONG_SLACK = 2, 15


@dataclass(frozen=True)
class Finding:
    """What the guard found in the translation of a line."""

    problems: tuple[Problem, ...]
    """The problems of the search's best candidate; in a split line, those of all parts."""
    repaired: bool
    """Whether every part with problems got a translation without problems."""


@dataclass(frozen=True)
class Languages:
    """The codes of the source and target languages."""

    source: str
    target: str

    @functools.cached_property
    def differ(self) -> bool:
        """Whether the languages are known and differ, so that a translation equal to its source is suspicious."""
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
    """The problems of a translation; usually none.

    Args:
        source: a line that is not blank.
        short_ratio: the target pieces per source piece that few training pairs fall below; 0 if unknown.
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
    return (*found, *changed(source, output))


def changed(source: str, output: str) -> tuple[Problem, ...]:
    """What a translation should have kept, and has changed: numbers, placeholders, URLs and e-mail addresses."""
    if not verbatim.may_be_in(source) and not verbatim.may_be_in(output):
        return ()
    found: list[Problem] = []
    if verbatim.web_addresses(source) != verbatim.web_addresses(output):
        found.append("url")
    if verbatim.placeholders(source) != verbatim.placeholders(output):
        found.append("placeholder")
    if verbatim.numbers_changed(source, output):
        found.append("number")
    return tuple(found)


def _is_looping(source_pieces: Sequence[str], output_pieces: Sequence[str]) -> bool:
    # A quick check that is enough for most translations: a loop needs few different pieces.
    if len(output_pieces) < _MIN_LOOPING_PIECES or len(set(output_pieces)) > _max_different(len(output_pieces)):
        return False
    loop = longest_loop(output_pieces, _MIN_REPEATS, _MIN_LOOPING_PIECES)
    return loop > 0 and loop > _LONGER_LOOP * longest_loop(source_pieces, 2, 2)


def _max_different(length: int) -> int:
    """The maximum number of different pieces in an output that contains a loop."""
    return length - _MIN_LOOPING_PIECES + _MIN_LOOPING_PIECES // _MIN_REPEATS


def longest_loop(pieces: Sequence[str], repeats: int, least: int) -> int:
    """The length in characters of the longest loop: the same pieces at least ``repeats`` times in a row.

    Loops of fewer than ``least`` pieces do not count. The length is in characters, because source and target may cut
    the same text into pieces of different lengths.
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
    # Two sentences are often translated as one. The caller checks that the output is short, too.
    count = len(sentences(source, languages.source))
    return count > 1 and len(sentences(output, languages.target)) < count


def _is_copied(source: str, output: str, source_lang: str) -> bool:
    # A quick check that is enough for most translations: they share few words with their source.
    ours, theirs = (_words(text.lower(), source_lang) for text in (source, output))
    if sum(map(frozenset(ours).__contains__, theirs)) < _COPIED_SHARE * _MIN_WORDS:
        return False
    words = _translatable_words(source, source_lang)
    if len(words) < _MIN_WORDS and not is_unspaced(source_lang) and _is_capitalized_sentence(source):
        source, output = source.lower(), output.lower()
        words = _translatable_words(source, source_lang)
    if len(words) < _MIN_WORDS:
        return False
    others = _translatable_words(output, source_lang)
    return (words & others).total() >= _COPIED_SHARE * max(words.total(), others.total())


def _is_capitalized_sentence(text: str) -> bool:
    """Whether a line IN CAPITALS or With Capitalised Words is a sentence, not names or an address."""
    words = ["".join(filter(str.isalpha, word)) for word in text.split()]
    words = list(filter(None, words))
    short = [word for word in words if len(word) <= _SHORT_WORD]
    least, most = _SHARE_OF_SHORT_WORDS
    return (
        len(words) >= _MIN_WORDS
        and all(word[0].isupper() for word in words)
        and least * len(words) <= len(short) <= most * len(words)
        and len(set(short)) > 1
        and not any(map(str.isdecimal, text))  # addresses have numbers
    )


def _words(text: str, language: str) -> Sequence[str]:
    """The words of a text, or the characters of an unspaced script."""
    return text if is_unspaced(language) else text.split()


def _translatable_words(text: str, language: str) -> Counter[str]:
    """The words that a translation should change: lower-case words, or characters of an unspaced script."""
    words = _words(text, language)
    if is_unspaced(language):
        return Counter(character for character in words if character.isalpha() and not character.isascii())
    return Counter(word for word in words if word == word.lower() and any(map(str.isalpha, word)))
