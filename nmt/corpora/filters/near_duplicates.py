"""The form in which pairs are equal that differ only in case, punctuation, digits and white space."""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

from nmt.corpora.filters.pair_filter import Pair
from nmt.text import comparison_key


def near_duplicate_key(pair: Pair) -> str:
    """Both sides with case folded, punctuation removed, each digit as 0, and white space collapsed."""
    return "\n".join(" ".join(comparison_key(line).casefold().translate(_changes()).split()) for line in pair)


@cache
def _changes() -> dict[int, str]:
    """What is put in place of each punctuation character and digit."""
    categories = ((code, unicodedata.category(chr(code))) for code in range(sys.maxunicode + 1))
    return {code: "0" if kind == "Nd" else "" for code, kind in categories if kind == "Nd" or kind[0] == "P"}
