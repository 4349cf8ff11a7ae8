"""The punctuation normaliser of Moses, as in sacremoses, with patterns that take linear time."""

from __future__ import annotations

import re
from collections.abc import Callable

_DOTS_BEFORE_QUOTE = r'(\.+)"(\s*[^<])'
# Matches like the pattern above, or else a whole stretch of dots, so that no dot is read twice.
_DOTS = re.compile(r'(\.++)(?:"(\s*[^<]))?')
# Characters that may become a quotation mark. In a line without any, the step for dots is skipped.
_QUOTE = re.compile("[\"'`´„“”‘’‚«»]")


def punctuation_normalizer(language: str) -> Callable[[str], str]:
    """The Moses steps of a language as one function: normalise punctuation, then remove non-printing characters."""
    from sacremoses import MosesPunctNormalizer

    moses = MosesPunctNormalizer(lang=language, pre_replace_unicode_punct=False, post_remove_control_chars=True)
    with_quotes = [
        (_DOTS, _quote_before_dots) if pattern == _DOTS_BEFORE_QUOTE else (pattern, replacement)
        for pattern, replacement in moses.substitutions
    ]
    without = [step for step in with_quotes if step[0] is not _DOTS]

    def normalize(line: str) -> str:
        moses.substitutions = with_quotes if _QUOTE.search(line) else without
        normalized: str = moses.normalize(line)
        return normalized

    return normalize


def _quote_before_dots(found: re.Match[str]) -> str:
    return found[0] if found[2] is None else f'"{found[1]}{found[2]}'
