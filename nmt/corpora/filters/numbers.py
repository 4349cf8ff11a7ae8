"""The filter of pairs whose sides have different numbers."""

from __future__ import annotations

import re
import unicodedata

from nmt.corpora.filters.pair_filter import Pair

# Groups of three digits with the same separator between them are one number: 1,000,000 or 1.000.000 or 1 000 000.
# Decimals and the parts of a date are numbers of their own. U+066C is the Arabic separator.
_NUMBER = re.compile("\\d{1,3}(?:([.,'\u2019\u066c \u00a0\u2009\u202f])\\d{3}(?:\\1\\d{3})*)(?!\\d)|\\d+")
_DIGIT = re.compile(r"\d")
# The digits behind a decimal separator. Dates and versions, which have several separators, are excluded; so is what
# may be a date at the end of a sentence, such as 5.5. or 05.05.
_DATE = r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\."
_FRACTION = re.compile(f"(?<![\\d.,\u066b])(?!{_DATE})\\d+[.,\u066b](\\d+)(?!\\d|[.,\u066b]\\d)")


def numbers_differ(pair: Pair) -> bool:
    """Whether the sides have different numbers, in any order and in the digits of any script."""
    source, target = pair
    if numbers(source) != numbers(target):
        return True
    # 1.05 is not 1.5, but the 5th of December is 05.12. and 5/12: leading zeros count where both sides have fractions.
    fractions = [[_in_ascii(digits) for digits in _FRACTION.findall(line)] for line in pair]
    without_zeros = [sorted(digits.lstrip("0") for digits in side) for side in fractions]
    return without_zeros[0] == without_zeros[1] and sorted(fractions[0]) != sorted(fractions[1])


def numbers(line: str) -> list[str]:
    """The numbers of a line, sorted, in ASCII digits without separators and leading zeros."""
    if _DIGIT.search(line) is None:
        return []
    return sorted(_plain(match[0]) for match in _NUMBER.finditer(line))


def _plain(number: str) -> str:
    return _in_ascii("".join(_DIGIT.findall(number))).lstrip("0") or "0"


def _in_ascii(digits: str) -> str:
    return digits if digits.isascii() else "".join(str(unicodedata.decimal(digit)) for digit in digits)
