"""The form that near duplicates share."""

import pytest

from nmt.corpora.filters.near_duplicates import near_duplicate_key


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("A dog runs.", "Ein Hund läuft."), ("a  DOG runs!", "“Ein Hund läuft”")),
        (("In 1999", "1999"), ("in 2024 ", "2024")),
        (("Straße", "x"), ("STRASSE", "X")),
        (("a - b", "caf\u00e9"), ("a b", "cafe\u0301.")),
        (("٣", "「犬」"), ("4", "犬。")),
    ],
)
def test_near_duplicates(first, second):
    assert near_duplicate_key(first) == near_duplicate_key(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a b", "c"), ("a", "b c")),
        (("ab", "c"), ("a b", "c")),
        (("in 99", "x"), ("in 199", "x")),
        (("5 $", "x"), ("5 €", "x")),
        (("कि", "x"), ("की", "x")),
        (("a", "b"), ("b", "a")),
    ],
)
def test_other_pairs_differ(first, second):
    assert near_duplicate_key(first) != near_duplicate_key(second)
