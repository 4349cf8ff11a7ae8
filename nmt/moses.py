"""The punctuation normaliser of Moses as sacremoses brings it, with linear patterns."""

from __future__ import annotations

import re
from collections.abc import Callable

_DOTS_BEFORE_QUOTE = r'(\.+)"(\s*[^<])'
# What it finds at the beginning of a stretch of dots; else the whole stretch, so that no dot is read twice.
_DOTS = re.compile(r'(\.++)(?:"(\s*[^<]))?')
# What may become a quotation mark; a line without any is spared the look at its dots.
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
