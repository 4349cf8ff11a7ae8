"""Numbers of both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.filters.numbers import numbers, numbers_differ


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("none", []),
        ("1,000 or 1.000 or 1 000 or 1'000 or 1’000 or 1000", ["1000"] * 6),
        ("1\u00a0000\u202f000", ["0", "1000"]),
        ("1,234,567.89", ["1234567", "89"]),
        ("1.234.567,89", ["1234567", "89"]),
        ("3.5 and 3,5", ["3", "3", "5", "5"]),
        ("12.05.2019", ["12", "2019", "5"]),
        ("12/5/2019", ["12", "2019", "5"]),
        ("2019.123", ["123", "2019"]),
        ("007", ["7"]),
        ("0 00", ["0", "0"]),
        ("١٬٢٣٤", ["1234"]),
        ("१२ और १२", ["12", "12"]),
        ("１２３円", ["123"]),
        ("x²", []),
        ("1" * 5_000, ["1" * 5_000]),
    ],
)
def test_numbers_of_a_line(line, expected):
    assert numbers(line) == sorted(expected)


@pytest.mark.parametrize(
    "pair",
    [
        ("In 1999, 1,000 people", "1999 waren es 1.000 Leute"),
        ("on 5/12/2019", "am 05.12.2019"),
        ("It costs $3.50", "Das kostet 3,50 $"),
        ("2 or 3", "3 oder 2"),
        ("12 cats", "१२ बिल्लियाँ"),
        ("a dog", "ein Hund"),
        ("1.05 or 1.5", "1,5 oder 1,05"),
        ("1.05", "١٫٠٥"),
        ("at 12.05", "um 12:05"),
        ("on 5/12", "am 05.12."),
        ("bis 5.5.", "dne 05.05."),
        ("version 1.05.2", "Version 1.5.2"),
    ],
)
def test_equal_numbers_pass_in_any_order(pair):
    assert not numbers_differ(pair)


@pytest.mark.parametrize(
    "pair",
    [
        ("12 cats", "21 Katzen"),
        ("by 41.05.", "um 41.5 Punkte"),
        ("2 and 2", "2"),
        ("5 cats", "fünf Katzen"),
        ("a", "1"),
        ("1,000", "10,00"),
        ("1.05", "1.5"),
        ("3,005 €", "€ 3.05"),
        ("१.०५", "1.5"),
    ],
)
def test_different_numbers_are_found(pair):
    assert numbers_differ(pair)
    assert numbers_differ((pair[1], pair[0]))


@given(st.lists(st.integers(0, 10**9), max_size=5), st.sampled_from(".,'’"), st.sampled_from(".,'’"))
def test_separators_change_nothing(values, first, second):
    """Written in any style, the numbers of a line are the numbers."""
    sides = ["; ".join(f"{value:,}".replace(",", separator) for value in values) for separator in (first, second)]
    assert numbers(sides[0]) == numbers(sides[1]) == sorted(map(str, values))
