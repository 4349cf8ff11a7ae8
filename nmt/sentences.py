"""The sentences of a line: where a new one begins, in many languages.

Wikimedia's ``sentencex`` proposes the ends of sentences. It is maintained, knows about 300 languages and their
abbreviations, keeps every character, needs no model, and reads 300,000 captions per second. The Moses splitter is the
reference in the field: its lists of words that end in a full stop inside a sentence (``Dr.``, French ``M.``, German
``3. Oktober``), which ``sacremoses`` brings, overrule a proposal, and so does its rule that a sentence does not begin
in lower case. The splitter of Moses itself (``sentence-splitter`` in Python) was no choice: it reads 5,000 lines per
second, squeezes white space, and knows neither Chinese nor Hindi. ``pysbd`` is slower still.
"""

from __future__ import annotations

import functools
import itertools
import re

import sentencex

from nmt.text import primary_language

# The library reads beside no-break spaces in some languages and fails, as of version 1.0.32.
_OTHER_WHITE_SPACE = re.compile(r"[^\S ]")
_NUMERIC_ONLY = "#NUMERIC_ONLY#"
_OPENING = "\"'“”„«»‘’([{¿¡"
_FIRST_CHARACTER = re.compile(r"\w")


def sentences(line: str, language: str) -> list[str]:
    """Cut a line into its sentences.

    The sentences joined are the line: white space between two stands at the end of the first. A line without text in
    it is its own only sentence.

    Args:
        language: code, with or without a region. Without a known code, rules that suit most languages apply.
    """
    language = primary_language(language)
    lengths = [len(sentence) for sentence in sentencex.segment(language or "en", _OTHER_WHITE_SPACE.sub(" ", line))]
    if len(lengths) <= 1:
        return [line]
    ends = itertools.accumulate(lengths)
    proposed = [line[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    may_begin_in_lower_case = line == line.lower()
    found = [proposed[0]]
    for following in proposed[1:]:
        if _ends(found[-1], following, language, may_begin_in_lower_case):
            found.append(following)
        else:
            found[-1] += following
    return found


def _ends(sentence: str, following: str, language: str, may_begin_in_lower_case: bool) -> bool:
    """Whether a sentence ends before the text that follows it."""
    first = _FIRST_CHARACTER.search(following)
    if first is None or _FIRST_CHARACTER.search(sentence) is None:  # punctuation alone
        return False
    if first[0].islower() and not may_begin_in_lower_case:
        return False
    text = sentence.rstrip()
    if not text.endswith("."):
        return True
    word = text[:-1].rsplit(maxsplit=1)[-1].lstrip(_OPENING)
    is_numeric_only = _prefixes(language).get(word)
    return is_numeric_only is None or (is_numeric_only and not first[0].isdigit())


@functools.cache
def _prefixes(language: str) -> dict[str, bool]:
    """The words of Moses' list behind which a full stop ends no sentence; True where only before a number."""
    from sacremoses.corpus import NonbreakingPrefixes

    lists = NonbreakingPrefixes()
    if language not in lists.available_langs:  # which would give the list of English
        return {}
    return {word.removesuffix(_NUMERIC_ONLY).strip(): _NUMERIC_ONLY in word for word in lists.words(language)}
