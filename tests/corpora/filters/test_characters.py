"""Control characters, the share of letters, long words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.filters.characters import few_letters, has_control_characters, long_words
from nmt.corpora.filters.letters import beyond_ascii, count_letters

CLEAN = [
    ("A dog\truns.", "Ein Hund läuft."),
    ("\u202bשלום\u202c עולם", "Bonjour \u2066à tous\u2069 \u200e!"),
    ("می\u200cخواهم", "नमस्ते दुनिया"),
    ("", "\u2028"),
]


@pytest.mark.parametrize("pair", CLEAN)
def test_text_without_control_characters_passes(pair):
    assert not has_control_characters(pair)


@pytest.mark.parametrize(
    "line",
    ["a\0b", "a\x07", "\x1b[1mb", "a\x7f", "a\x85b", "\x9f", "a\x0bb", "\u202ea", "a\u202c", "\u2067a", "a\u2069",
     "\u202aa\u2069", "\u202c\u202a", "\u2066\u2066a\u2069"],
)  # fmt: skip
def test_control_characters_are_found_on_both_sides(line):
    assert has_control_characters((line, "a"))
    assert has_control_characters(("a", line))


@pytest.mark.parametrize(
    ("line", "share"),
    [("ab 1", 2 / 3), ("ab", 1), ("नमस्ते", 1), ("สวัสดี", 1), ("ж12", 1 / 3),
     ("犬が走る。", 0.8), ("", 1), (" \u00a0", 1)],
)  # fmt: skip
def test_the_share_of_letters_is_of_characters_that_are_not_white_space(line, share):
    """Marks of letters, such as vowel signs, count as letters; the share is inclusive."""
    assert not few_letters(share)((line, "a"))
    if 0 < share < 1:
        assert few_letters(share + 0.01)((line, "a"))
        assert few_letters(share + 0.01)(("a", line))


@pytest.mark.parametrize("line", ["12:30 - 14:00 | 5 €", "★★★★ ok", "===== x", "\u0301" * 3 + "++++"])
def test_lines_of_digits_and_symbols_have_few_letters(line):
    assert few_letters(0.5)(("A dog runs.", line))


def test_long_words_are_found_where_words_have_spaces():
    finds = long_words("en", "de", 10)
    assert not finds(("exactly 1234567890 fits", "Donaudampf schiff"))
    assert finds(("a", "Donaudampfschiff"))
    assert finds(("12345678901", "a"))
    assert not finds(("a\u00a0b\u3000c d e f g h i j", "a b c d e f g h"))


def test_languages_without_spaces_have_no_long_words():
    assert not long_words("zh-Hans", "ja", 3)(("狗在公园里跑得很快", "犬が公園で速く走っている"))
    assert not long_words("en", "th", 6)(("a dog", "สุนัขวิ่งในสวนสาธารณะ"))
    assert long_words("en", "th", 6)(("doghouses", "สุนัข"))


@given(st.text() | st.text(st.sampled_from("aZ1 .äß犬ǅªж\u0301")))
def test_letters_are_counted_as_python_counts_them(line):
    assert count_letters(line) == sum(map(str.isalpha, line))
    assert beyond_ascii(line) == "".join(character for character in line if not character.isascii())
