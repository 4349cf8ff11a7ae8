"""Capitals and small letters, as a language writes them."""

import pytest

from nmt.text.case import capitalized, lower, upper


@pytest.mark.parametrize(
    ("language", "small", "first", "capitals"),
    [
        ("en", "it is", "It is", "IT IS"),
        ("tr", "iki ışık", "İki ışık", "İKİ IŞIK"),
        ("aze_Latn", "ışıq", "Işıq", "IŞIQ"),
        ("", "éé", "Éé", "ÉÉ"),
    ],
)
def test_letters_correspond(language, small, first, capitals):
    assert upper(small, language) == upper(first, language) == capitals
    assert lower(capitals, language) == lower(first, language) == small
    assert capitalized(small, language) == first
    assert capitalized("", language) == ""


def test_greek_capitals_have_no_accents():
    assert upper("Άνδρας, προϊόν, ΐ", "el") == "ΑΝΔΡΑΣ, ΠΡΟΪΟΝ, Ϊ"
    assert capitalized("άνδρας", "el") == "Άνδρας"
    assert lower("ΛΟΓΟΣ", "el") == "λογος"
