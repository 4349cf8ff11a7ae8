"""The filter of sides in a script that their language does not use."""

from __future__ import annotations

import re
from collections.abc import Callable

from nmt.corpora.filters.letters import beyond_ascii, count_letters
from nmt.corpora.filters.pair_filter import Finder, Pair
from nmt.languages import LETTERS, scripts_of


def other_script(source_lang: str, target_lang: str) -> Finder:
    """Find a side with more than half of its letters in scripts that its language does not use."""
    sides = [in_other_script(language) for language in (source_lang, target_lang)]

    def found(pair: Pair) -> bool:
        return any(is_foreign is not None and is_foreign(line) for line, is_foreign in zip(pair, sides, strict=True))

    return found


def in_other_script(language: str) -> Callable[[str], bool] | None:
    """Whether a line has more than half of its letters in scripts of other languages; None for unknown languages."""
    scripts = scripts_of(language)
    if not scripts:
        return None
    own = re.compile(f"[{''.join(LETTERS[script] for script in scripts)}]+")
    has_latin = "Latn" in scripts

    def is_foreign(line: str) -> bool:
        # Of a language in Latin letters, no character of ASCII is foreign.
        foreign = count_letters(own.sub("", beyond_ascii(line) if has_latin else line))
        return foreign > 0 and 2 * foreign > count_letters(line)

    return is_foreign
