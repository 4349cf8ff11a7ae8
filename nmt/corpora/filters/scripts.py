"""The filter of sides in a script that their language does not use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nmt.corpora.filters.letters import beyond_ascii, count_letters
from nmt.corpora.filters.pair_filter import Finder, Pair
from nmt.languages import LETTERS, scripts_of


def other_script(source_lang: str, target_lang: str) -> Finder:
    """Find a side with more than half of its letters in scripts that its language does not use."""
    own = [_letters_of(scripts_of(language)) for language in (source_lang, target_lang)]

    def found(pair: Pair) -> bool:
        return any(
            letters is not None and _is_mostly_other(line, letters) for line, letters in zip(pair, own, strict=True)
        )

    return found


def _letters_of(scripts: Sequence[str]) -> re.Pattern[str] | None:
    """A pattern of runs of characters of these scripts; None for no scripts."""
    return re.compile(f"[{''.join(LETTERS[script] for script in scripts)}]+") if scripts else None


def _is_mostly_other(line: str, own: re.Pattern[str]) -> bool:
    # Of a language in Latin letters, no character of ASCII is foreign.
    foreign = count_letters(own.sub("", beyond_ascii(line) if own.match("a") else line))
    return foreign > 0 and 2 * foreign > count_letters(line)
