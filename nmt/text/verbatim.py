"""What a translation keeps: the numbers, the web addresses and the placeholders of a line."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

import regex

from nmt.text.languages import UNSPACED

# Groups of three digits with the same separator between them are one number: 1,000,000 or 1.000.000 or 1 000 000.
# So are groups as in India, of which only the last has three, and groups of full width. Decimals and the parts of a
# date are numbers of their own. U+066C is the Arabic separator.
_NUMBER = re.compile(
    "\\d{1,3}(?:([.,'\u2019\u066c \u00a0\u2009\u202f])\\d{3}(?:\\1\\d{3})*)(?!\\d)|\\d{1,2}(?:,\\d\\d)+,\\d{3}(?!\\d)"
    "|[０-９]{1,3}(?:，[０-９]{3})+(?!\\d)|\\d+"
)
_DIGIT = re.compile(r"\d")
# The digits behind a decimal separator. Dates and versions, which have several separators, are excluded; so is what
# may be a date at the end of a sentence, such as 5.5. or 05.05.
_DATE = r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\."
_DATE_HERE = re.compile(_DATE)
# What is never a word: a number with a sign, a decimal, a version, a time. Of a date, the month may be one.
_NEVER_A_WORD = re.compile(r"(?<!\S)[-−–+]\d+|(?<![\d.,٫:/])\d+(?:[.,٫](?!0+(?!\d|[.,]\d))\d+|:(?!00)\d\d)+(?![\d/])")
_VULGAR_FRACTION = re.compile("[¼-¾⅐-⅞]")
_FRACTION = re.compile(f"(?<![\\d.,\u066b])(?!{_DATE})\\d+[.,\u066b](\\d+)(?!\\d|[.,\u066b]\\d)")


class _Spans:
    """Spans of a kind. All have a hint, which most lines lack, and which is found in a tenth of the time."""

    def __init__(self, hint: str, pattern: re.Pattern[str] | regex.Pattern[str]) -> None:
        self._hint, self._pattern = re.compile(hint), pattern

    def of(self, line: str) -> Iterator[re.Match[str] | regex.Match[str]]:
        return self._pattern.finditer(line) if self._hint.search(line) else iter(())

    def taken_from(self, line: str) -> str:
        return self._pattern.sub(" ", line) if self._hint.search(line) else line


# Letters beyond ASCII of scripts with spaces between words alone: in Chinese, Japanese and Korean, an address may be
# followed by a letter of the sentence. An address is read from its beginning only, so the time is linear.
_PATH = rf"(?:[!#-;=?-Z\[\]_a-z~]++|(?![\p{{Hang}}{UNSPACED}])[^\W\x00-\x7f])"
# Few labels, since going back over them takes regex longer for each.
_HOST = r"(?<![A-Za-z0-9._%+/-])(?:[A-Za-z0-9-]++\.){1,30}"
_ADDRESS = _Spans(
    r"@|://|\.[A-Za-z]|[Ww]\.",
    regex.compile(
        rf"(?<![A-Za-z0-9])(?:(?:https?|ftp)://|www\.){_PATH}++"
        r"|(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]++@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)+"
        rf"|{_HOST}(?:(?:com|org|net|edu|gov|info)(?![A-Za-z0-9-])(?:/{_PATH}*+)?"
        rf"|(?-i:[a-z]{{2}}|app|biz|dev|xyz)/{_PATH}++)",
        regex.IGNORECASE,
    ),
)
_PUNCTUATION = ".,;:!?'()[]*_/"
"""Punctuation that ends a sentence and not an address; the slash at the end changes nothing."""

# What programs replace. A percent sign after a number, and an entity that stands for a quotation mark or an ampersand,
# belong to the language.
_PLACEHOLDER = _Spans(
    r"[{%<&$\[_:]",
    re.compile(
        r"\{\{[^{}\n]*+\}\}|\{%[^%\n]*+%\}|\$t\([^()\n]*+\)"  # {{ name|upper }}, {% include 'x' %}, $t(key)
        r"|[$#%]?\{\s*+[\w.$:-]*+\s*+\}"  # {name}, {0}, ${name}, #{name}
        r"|%\(\w++\)[-+#0]*+\d*+(?:\.\d++)?[A-Za-z]"  # %(name)s
        r"|(?<!\d)(?<!\d[ \u00a0\u202f])%(?:\d++\$)?[-+#0]*+\d*+(?:\.\d++)?"  # %s, %5.2f, %1$s
        r"(?:hh?|ll?|[Lqjzt])?[@AEFGXacdefgioprsux](?![A-Za-z\d_])"
        r"|(?<![\d\w])%[A-Za-z_]++%(?!\w)|(?<![\w$])\$[a-z_]\w++"  # %name%, $name
        r"|\[\[\w++\]\]|(?<!\w)__[A-Z\d_]+?__(?!\w)|(?<![\w:]):[a-z]\w++:(?![\w:])"  # [[name]], __NAME__, :name:
        r"|(?P<tag></\w++(?=\s*>)|<\w++(?=\s*/>|\s[^<>=]*=[^<>]*>)|<(?=[A-Za-z]*\d)\w++(?=>)"  # </b>, <0/>, <a x="">
        r"|<(?:[abipqu]|[bht]r|[dou]l|em|li|t[dht]|su[bp]|big|code|center|del|div|font|ins|mark|pre|small|span|strong|table)"
        r"(?=>))[^<>]*>"
        r"|&(?!(?:amp|apos|quot|[lr][sd]quo|#34|#38|#39);)(?:#x?[\dA-Fa-f]++|[a-z]\w*+);"
    ),
)

# What says that a number is an hour, a year of two digits, or a decade or century: pm and Uhr, 5/6/24, 1980s and 80er.
_TIME = re.compile(
    r"\d[:.h]\d\d|\d ?(?:[ap]\.? ?m\b|h\b|uhr|uur|hod|giờ|час|год|[時时点點시])|[上下中]午|晚上"
    r"|\bd[ea] (?:la )?(?:tarde|noche|mañana|noite|manhã)|\b(?:kl|klo|ore|godz)\b|o.clock",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<=[/.'’‘–-])\d\d(?!\d)")
_THAI = re.compile("[\u0e01-\u0e3a]")
_BUDDHIST_ERA = 543
"""So many years before the Christian one begins that in which Thai text counts."""
_NAMED = re.compile(r"(?<!\d)\d++(?=['’]?-?[^\W\d_])")

# Numerals that may replace digits. They explain a number; by themselves they say nothing: 一 is in many other words.
_NUMERAL = re.compile("[〇零一二两兩三四五六七八九十百千万萬亿億፩-፼௰-௲Ⅰ-ↂ①-⑳]+")
_HAN_SCALE = re.compile(r"(?<=\d)[万萬亿億]")
_ROMAN = re.compile(r"(?<![A-Za-z])[IVXLC]{2,12}(?![A-Z])")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}

# One of these, or a full stop within it, is in each line that has anything to keep.
_HINT = re.compile(r"[\d{%<&$@\[_:]")


def may_be_in(line: str) -> bool:
    """Whether a line may have a number, a web address or a placeholder. Most lines have none, and are seen through."""
    return _HINT.search(line) is not None or "." in line[:-1]


def numbers(line: str) -> list[str]:
    """The numbers of a line, in ASCII digits without separators and leading zeros."""
    if _DIGIT.search(line) is None:
        return []
    return [_plain(match[0]) for match in _NUMBER.finditer(line)]


def numbers_differ(source: str, target: str) -> bool:
    """Whether the sides have different numbers, in any order and in the digits of any script."""
    return sorted(numbers(source)) != sorted(numbers(target)) or _fractions_differ(source, target)


def _fractions_differ(source: str, target: str) -> bool:
    # 1.05 is not 1.5, but the 5th of December is 05.12. and 5/12, and 12.05 may be 12:05: the digits behind separators
    # count where both sides have as many.
    sides = [sorted(_in_ascii(digits) for digits in _FRACTION.findall(line)) for line in (source, target)]
    return len(sides[0]) == len(sides[1]) and sides[0] != sides[1]


def _plain(number: str) -> str:
    return _in_ascii("".join(_DIGIT.findall(number))).lstrip("0") or "0"


def _in_ascii(digits: str) -> str:
    return digits if digits.isascii() else "".join(str(unicodedata.decimal(digit)) for digit in digits)


def web_addresses(line: str) -> set[str]:
    """The URLs and e-mail addresses of a line, in lower case."""
    return {found[0].rstrip(_PUNCTUATION).lower() for found in _ADDRESS.of(line)}


def placeholders(line: str) -> Counter[str]:
    """The placeholders of a line, tags by their names. Those within web addresses belong to these."""
    return Counter(found["tag"] or found[0] for found in _PLACEHOLDER.of(_ADDRESS.taken_from(line)))


def without_spans(line: str) -> str:
    """A line without its web addresses and placeholders."""
    return _PLACEHOLDER.taken_from(_ADDRESS.taken_from(line))


def spans(line: str) -> list[tuple[int, int]]:
    """Where web addresses and placeholders begin and end, tags as a whole."""
    return [found.span() for kind in (_ADDRESS, _PLACEHOLDER) for found in kind.of(line)]


def numbers_changed(source: str, target: str, *, may_be_words: bool = True) -> bool:
    """Whether a translation has lost, invented or changed a number outside of web addresses and placeholders.

    Numbers may be in another order or form: with other separators, in Han or Roman numerals, zeros as a word such as
    million, and where the lines say so hours of 12 or 24 and years of two digits. What may be a word on the other side
    says nothing: a lost number up to 12, or with one digit before its zeros, without a sign or other parts; a new one
    with at most two.

    Args:
        may_be_words: whether a new number may be a word of the source.
    """
    if not _DIGIT.search(source) and not _DIGIT.search(target):
        return False
    source, target = map(_with_plain_numbers, (source, target))
    ours, theirs = numbers(source), numbers(target)
    lost, new = _without(ours, theirs), _without(theirs, ours)
    if not lost and not new:
        return _fractions_differ(source, target)
    lost, new = _without(lost, _numerals(target)), _without(new, _numerals(source))
    lost, new = _without_other_forms(lost, new, (source, target))
    if lost and new:
        sides = [(side, [number for number in side if not _may_be_a_word(number)]) for side in (lost, new)]
        return not any(itertools.starmap(_are_same_digits, itertools.product(*sides)))
    return (
        not all(map(_may_be_a_word, lost))
        or (not _VULGAR_FRACTION.search(target) and _has_lost_whole(source, lost))
        or any(len(digits.rstrip("0")) > 2 * may_be_words for digits in new)
    )


def _has_lost_whole(source: str, lost: list[str]) -> bool:
    """Whether a part of something that is never a word is lost."""
    for found in _NEVER_A_WORD.finditer(source) if lost else ():
        are_lost = [part in lost for part in numbers(found[0])]
        is_whole = len(are_lost) > 1 or not found[0][0].isdigit()  # 20,000 has one part
        if is_whole and (all(are_lost) if _DATE_HERE.match(source, found.start()) else any(are_lost)):
            return True
    return False


def _with_plain_numbers(line: str) -> str:
    line = without_spans(line)
    return _HAN_SCALE.sub(lambda scale: "0000;" if scale[0] in "万萬" else "00000000;", line)  # 125万 is 1,250,000


def _may_be_a_word(number: str) -> bool:
    return number in ("10", "11", "12") or len(number.rstrip("0")) <= 1


def _without(some: list[str], others: list[str]) -> list[str]:
    """What some have more often than others, in order."""
    left, found = Counter(others), []
    for number in some:
        if left[number]:
            left[number] -= 1
        else:
            found.append(number)
    return found


def _are_same_digits(some: list[str], others: list[str]) -> bool:
    """Whether numbers are divided otherwise, as those of a telephone, or have a word in place of zeros."""
    joined = ["".join(side) for side in (some, others)]
    without_zeros = ["".join(number.rstrip("0") for number in side) for side in (some, others)]
    fewer, more = sorted(map(len, joined))
    if len(some) != len(others) and more > 4:  # 3.5 is not 35
        return joined[0] == joined[1] or without_zeros[0] == without_zeros[1]
    return more - fewer > 2 and without_zeros[0] == without_zeros[1]


def _without_other_forms(lost: list[str], new: list[str], sides: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Numbers without the pairs that may be one: an hour, a year, a decade, or a century by its first year.

    Args:
        sides: the lines. What stands beside a number says what it is: 24 is no year, but 5/6/24 is one.
    """
    are_times = any(map(_TIME.search, sides))
    years, named = ({_plain(found[0]) for side in sides for found in kind.finditer(side)} for kind in (_YEAR, _NAMED))

    def are_one(some: int, other: int) -> bool:
        fewer, more = sorted((some, other))
        is_year = more % 100 == fewer and (str(fewer) in years or not named.isdisjoint((str(fewer), str(more))))
        is_century = more == 100 * (fewer - 1) and str(more) in named
        is_thai = more == fewer + _BUDDHIST_ERA and 1000 <= fewer < 2100 and any(map(_THAI.search, sides))
        return is_year or is_century or is_thai or (are_times and more == fewer + 12)

    left = Counter(new)
    kept: list[str] = []
    for number in lost:
        others = _possible_forms(int(number)) if new and len(number) <= 4 else []
        same = next((str(each) for each in others if left[str(each)] and are_one(int(number), each)), None)
        if same is None:
            kept.append(number)
        else:
            left[same] -= 1
    return kept, list(left.elements())


def _possible_forms(value: int) -> list[int]:
    """Other numbers that may be the same hour, year, or century by its first year."""
    forms = [value + 12] * (value <= 12) + [value - 12] * (12 <= value <= 24)
    forms += [value + _BUDDHIST_ERA] * (1000 <= value < 2100) + [value - _BUDDHIST_ERA] * (1500 <= value < 2700)
    forms += [value % 100] * (1000 <= value < 2100) + [1900 + value, 2000 + value] * (value < 100)
    return forms + [100 * (value - 1)] * (12 < value < 22) + [value // 100 + 1] * (1200 <= value < 2100)


def _numerals(line: str) -> list[str]:
    """The values of the numerals of a line that are no decimal digits: Han, Roman, Ethiopic, Tamil."""
    values = [_value(match[0]) for match in _NUMERAL.finditer(line)]
    return list(map(str, values + [_roman_value(match[0]) for match in _ROMAN.finditer(line)]))


def _value(numeral: str) -> int:
    total = section = digit = 0
    for value in (int(unicodedata.numeric(character, 2)) for character in numeral[:20]):  # 两 has no value
        if value < 10:
            digit = 10 * digit + value
        elif value < 10_000:
            section, digit = section + max(1, digit) * value, 0
        else:
            total, section, digit = total + max(1, section + digit) * value, 0, 0
    return total + section + digit


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    return sum(values) - 2 * sum(value for value, following in itertools.pairwise(values) if value < following)
