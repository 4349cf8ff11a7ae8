"""The form in which pairs are equal that differ only in case, punctuation, digits and white space."""

from __future__ import annotations

import re
import unicodedata

from nmt.corpora.filters.pair_filter import Pair
from nmt.text import comparison_key

_DIGIT = re.compile(r"\d")
_MARK = re.compile(r"[^\w\s]|_")


def near_duplicate_key(pair: Pair) -> str:
    """Both sides with case folded, punctuation removed, each digit as 0, and white space collapsed."""
    return "\n".join(map(_key, pair))


def _key(line: str) -> str:
    line = _DIGIT.sub("0", comparison_key(line).casefold())
    return " ".join(_MARK.sub(_without_punctuation, line).split())


def _without_punctuation(mark: re.Match[str]) -> str:
    return "" if unicodedata.category(mark[0])[0] == "P" else mark[0]
