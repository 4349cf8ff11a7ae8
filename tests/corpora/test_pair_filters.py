"""What each filter finds in a pair, on both sides; and the forms of text that filters compare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.corpora.filters import FILTERS
from nmt.corpora.pair_filters import beyond_ascii, count_letters, nearly, repair_encoding


def finder(setting, value=True, source_lang="en", target_lang="de"):
    """Whether the filter finds a pair of these languages."""
    return FILTERS[setting].predicate(value, (source_lang, target_lang))


CONTROL, MARKUP, NUMBERS, URLS = map(finder, ("control", "html", "numbers", "urls"))

PROPER_CHARACTERS = [
    ("A dog\truns.", "Ein Hund läuft."),
    ("\u202bשלום\u202c עולם", "Bonjour \u2066à tous\u2069 \u200e!"),
    ("می\u200cخواهم", "नमस्ते दुनिया"),
    ("", "\u2028"),
]


@pytest.mark.parametrize("pair", PROPER_CHARACTERS)
def test_text_without_control_characters_passes(pair):
    assert not CONTROL(pair)


@pytest.mark.parametrize(
    "line",
    ["a\0b", "a\x07", "\x1b[1mb", "a\x7f", "a\x85b", "\x9f", "a\x0bb", "\u202ea", "a\u202c", "\u2067a", "a\u2069",
     "\u202aa\u2069", "\u202c\u202a", "\u2066\u2066a\u2069"],
)  # fmt: skip
def test_control_characters_are_found_on_both_sides(line):
    assert CONTROL((line, "a"))
    assert CONTROL(("a", line))


@pytest.mark.parametrize(
    ("line", "share"),
    [("ab 1", 2 / 3), ("ab", 1), ("नमस्ते", 1), ("สวัสดี", 1), ("ж12", 1 / 3),
     ("犬が走る。", 0.8), ("", 1), (" \u00a0", 1)],
)  # fmt: skip
def test_the_share_of_letters_is_of_characters_that_are_not_white_space(line, share):
    """Marks of letters, such as vowel signs, count as letters; the share is inclusive."""
    assert not finder("letters", share)((line, "a"))
    if 0 < share < 1:
        assert finder("letters", share + 0.01)((line, "a"))
        assert finder("letters", share + 0.01)(("a", line))


@pytest.mark.parametrize("line", ["12:30 - 14:00 | 5 €", "★★★★ ok", "===== x", "\u0301" * 3 + "++++"])
def test_lines_of_digits_and_symbols_have_few_letters(line):
    assert finder("letters", 0.5)(("A dog runs.", line))


def test_long_words_are_found_where_words_have_spaces():
    finds = finder("long_words", 10)
    assert not finds(("exactly 1234567890 fits", "Donaudampf schiff"))
    assert finds(("a", "Donaudampfschiff"))
    assert finds(("12345678901", "a"))
    assert not finds(("a\u00a0b\u3000c d e f g h i j", "a b c d e f g h"))


def test_languages_without_spaces_have_no_long_words():
    assert not finder("long_words", 3, "zh-Hans", "ja")(("狗在公园里跑得很快", "犬が公園で速く走っている"))
    assert not finder("long_words", 6, "en", "th")(("a dog", "สุนัขวิ่งในสวนสาธารณะ"))
    assert finder("long_words", 6, "en", "th")(("doghouses", "สุนัข"))


def test_the_word_space_of_ethiopic_separates_words():
    assert not finder("long_words", 6, "en", "am")(("a dog", "ውሻ፡በመናፈሻ፡ይሮጣል።"))


@given(st.text() | st.text(st.sampled_from("aZ1 .äß犬ǅªж\u0301")))
def test_letters_are_counted_as_python_counts_them(line):
    assert count_letters(line) == sum(map(str.isalpha, line))
    assert beyond_ascii(line) == "".join(character for character in line if not character.isascii())


@pytest.mark.parametrize(
    "line",
    ["a<br>b", "a<br/>", "<b>fett</b>", "</p>", "<br />", '<a href="x">y</a>', "<A HREF = 'x'>", "<o:p>", "<!-- x",
     "<!doctype html>", "<?xml version='1.0'?>", "<![CDATA[x", "R&amp;D", "a&nbsp;b", "&#39;", "&#x1F600;",
     "caf&eacute;",
     "<data>", "<img src=a alt=b>"],
)  # fmt: skip
def test_markup_is_found_on_both_sides(line):
    assert MARKUP((line, "a"))
    assert MARKUP(("a", line))


@pytest.mark.parametrize(
    "line",
    ["I <3 you", "a < b and c > d", "x<y and z>w", "R&D", "AT&T; x", "Q&A: was?", "a && b;", "<< so >>, he said",
     "<https://example.org/>", "<me@example.org>", "5 > 4", "&unknown;", "& amp;", "1<2", "犬 < 猫", "->", "<-"],
)  # fmt: skip
def test_other_text_with_the_same_signs_passes(line):
    assert not MARKUP((line, "a"))


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
    assert not NUMBERS(pair)


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
    assert NUMBERS(pair)
    assert NUMBERS((pair[1], pair[0]))


def test_pairs_with_different_addresses_are_found():
    assert not URLS(("See www.example.org.", "Siehe www.example.org"))
    assert not URLS(("a b", "c d"))
    assert URLS(("See www.example.org/en", "Siehe www.example.org/de"))
    assert URLS(("Write to a@example.org", "Schreiben Sie uns"))
    assert URLS(("a", "https://example.org"))


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
    assert nearly(first) == nearly(second)


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
    assert nearly(first) != nearly(second)


PROPERLY_READ = [
    "Ein Käse, größer als „üblich“ – 5 €", "L’été à Noël…", "Привет, мир", "犬が走る。", "Zażółć gęślą jaźń",
    "😀 ok", "naïve", "Ærø", "\u00a0", "¿Qué?",
]  # fmt: skip


def misread(line, encoding):
    """What a program shows that takes UTF-8 for an encoding of 8 bits; undefined bytes of cp1252 stay as they are."""
    undefined = () if encoding == "latin-1" else (0x81, 0x8D, 0x8F, 0x90, 0x9D)
    return "".join(chr(byte) if byte in undefined else bytes([byte]).decode(encoding) for byte in line.encode())


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("line", PROPERLY_READ)
def test_misread_text_is_repaired_and_proper_text_is_left_alone(line, encoding):
    assert repair_encoding(line) == line
    assert misread(line, encoding) != line
    assert repair_encoding(misread(line, encoding)) == line
    assert repair_encoding(misread(misread(line, encoding), encoding)) == line


@pytest.mark.parametrize(
    "line",
    [
        "Ã¤ and ☃",  # Not all of it was misread.
        "ä and Ã¤",
        "IRMÃ»", "«MANHÃ»", "VOILÂ’ X", "MANHÃ\u00a0",  # The end of a word in capitals.
        "NÃO", "SÃO PAULO", "Ã", "Ââ", "à la", "Â", "£ 5", "ÄÖÜ äöü",
        "Â\u0080",  # It would become a control character.
        "ï¿½",  # It would become U+FFFD.
        "Ã¤\ufffd",
        "plain", "",
    ],
)  # fmt: skip
def test_text_that_is_not_certain_is_left_alone(line):
    assert repair_encoding(line) == line


@given(st.text(st.sampled_from("aZ ÃÂâ€™¤»äöüÀÿß“”…\u00a0\u0080\u009d\ufffd犬")))
def test_a_repair_is_final_and_exact(line):
    repaired = repair_encoding(line)
    assert repair_encoding(repaired) == repaired
    readings = {repaired}
    for _ in range(5):
        readings |= {misread(reading, encoding) for reading in readings for encoding in ("latin-1", "cp1252")}
    assert line in readings


@given(st.text(st.characters(min_codepoint=0x100, exclude_categories=["Cs"]), min_size=1))
def test_text_in_other_scripts_is_never_changed(line):
    if not set(line) & set("€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"):
        assert repair_encoding(line) == line


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x24F, exclude_categories=["Cc"])))
def test_misread_latin_is_repaired_or_left_as_it_is(line):
    """Whatever was misread is never made into a third thing."""
    if repair_encoding(line) == line:
        for encoding in ("latin-1", "cp1252"):
            wrong = misread(line, encoding)
            assert repair_encoding(wrong) in (wrong, line)
