"""Splitting a line into sentences, in many languages.

Wikimedia's ``sentencex`` proposes the ends of sentences. It is maintained, has about 300 languages and their
abbreviations, keeps every character, needs no model, and reads 300,000 captions per second. The Moses splitter is the
reference in the field. Two of its rules overrule a proposal: its lists (in ``sacremoses``) of words that end in a full
stop inside a sentence (``Dr.``, French ``M.``, German ``3. Oktober``), and that no sentence begins in lower case.
The Moses splitter itself (``sentence-splitter`` in Python) is not used: it reads 5,000 lines per second, squeezes white
space, and has neither Chinese nor Hindi. ``pysbd`` is slower still.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator

import sentencex

from nmt.text.languages import primary_language

# As of version 1.0.32, the library fails on no-break spaces in some languages.
_OTHER_WHITE_SPACE = re.compile(r"[^\S ]")
_NUMERIC_ONLY = "#NUMERIC_ONLY#"
_OPENING = "\"'“”„«»‘’([{¿¡"
_FIRST_CHARACTER = re.compile(r"\w")
# The library takes quadratic time on text with quotation marks that are never closed.
_WINDOW = 4_096
# Maximum length of a word in the lists of Moses, with quotation marks and brackets before it.
_LONGEST_PREFIX = 64


def sentences(line: str, language: str) -> list[str]:
    """Split a line into its sentences.

    The joined sentences are the line: white space between two sentences is at the end of the first. A line without text
    is one sentence.

    Args:
        language: code, with or without a region. For unknown codes, rules that suit most languages apply.
    """
    language = primary_language(language)
    proposed = list(_proposed_ends(_OTHER_WHITE_SPACE.sub(" ", line), language or "en"))
    if len(proposed) <= 1:
        return [line]
    may_begin_in_lower_case = line == line.lower()
    begins = [0]
    has_words, text_end = False, 0  # Facts about the last sentence so far.
    for place, end in itertools.pairwise([0, *proposed]):
        following = line[place:end]
        first = _FIRST_CHARACTER.search(following)
        if first is not None and has_words:  # Neither part is only punctuation.
            may_begin = may_begin_in_lower_case or not first[0].islower()
            if may_begin and _ends(line, begins[-1], text_end, first[0], language):
                begins.append(place)
        has_words = has_words or first is not None
        if text := following.rstrip():
            text_end = place + len(text)
    return [line[begin:end] for begin, end in itertools.pairwise([*begins, len(line)])]


def _proposed_ends(text: str, language: str) -> Iterator[int]:
    """The ends of sentences that the library proposes, window by window; the last is the end of the text.

    A window begins with a sentence, unless a sentence is longer than half a window.
    """
    begin = 0
    while True:
        window = text[begin : begin + _WINDOW]
        ends = list(itertools.accumulate(map(len, sentencex.segment(language, window)), initial=begin))[1:]
        if begin + len(window) == len(text):
            yield from ends
            return
        # The window may have cut the last sentence.
        complete = ends[:-1]
        yield from complete
        begin = complete[-1] if complete and complete[-1] - begin >= _WINDOW // 2 else begin + len(window)


def _ends(line: str, begin: int, end: int, following: str, language: str) -> bool:
    """Whether a sentence ends here: its last full stop is not part of an abbreviation.

    Args:
        begin, end: the sentence in the line, without the white space after it.
        following: the first letter or digit after it.
    """
    if line[end - 1] != ".":
        return True
    last_words = line[max(begin, end - 2 - _LONGEST_PREFIX) : end - 1].rsplit(maxsplit=1)
    if not last_words or len(last_words[-1]) > _LONGEST_PREFIX:
        return True
    is_numeric_only = nonbreaking_prefixes(language).get(last_words[-1].lstrip(_OPENING))
    return is_numeric_only is None or (is_numeric_only and not following.isdigit())


@functools.cache
def nonbreaking_prefixes(language: str) -> dict[str, bool]:
    """The words of Moses' list after which a full stop ends no sentence; True if this holds only before a number."""
    from sacremoses.corpus import NonbreakingPrefixes

    lists = NonbreakingPrefixes()
    if language not in lists.available_langs:  # The library would return the English list.
        return {}
    return {word.removesuffix(_NUMERIC_ONLY).strip(): _NUMERIC_ONLY in word for word in lists.words(language)}
