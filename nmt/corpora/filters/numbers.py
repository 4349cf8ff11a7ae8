"""The filter of pairs whose sides have different numbers."""

from __future__ import annotations

import re
import unicodedata

from nmt.corpora.filters.pair_filter import Pair

# Groups of three digits with the same separator between them are one number: 1,000,000 or 1.000.000 or 1 000 000.
# Decimals and the parts of a date are numbers of their own. U+066C is the Arabic separator.
_NUMBER = re.compile("\\d{1,3}(?:([.,'\u2019\u066c \u00a0\u2009\u202f])\\d{3}(?:\\1\\d{3})*)(?!\\d)|\\d+")
_DIGIT = re.compile(r"\d")


def numbers_differ(pair: Pair) -> bool:
    """Whether the sides have different numbers, in any order and in the digits of any script."""
    source, target = pair
    return numbers(source) != numbers(target)


def numbers(line: str) -> list[str]:
    """The numbers of a line, sorted, in ASCII digits without separators and leading zeros."""
    if _DIGIT.search(line) is None:
        return []
    return sorted(_plain(match[0]) for match in _NUMBER.finditer(line))


def _plain(number: str) -> str:
    digits = "".join(_DIGIT.findall(number))
    if not digits.isascii():
        digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
    return digits.lstrip("0") or "0"
