"""Wrapped text: put together and wrapped again, with blank lines, widths and indents as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.errors import DataError
from nmt.translation import paragraphs as module
from nmt.translation.paragraphs import Paragraph, columns, paragraphs
from nmt.translation.windows import windows


def test_blank_lines_separate_paragraphs_and_are_kept():
    lines = ["", "one", "two", " \t", "", "three"]
    assert list(paragraphs(lines)) == [
        Paragraph(("",), 1),
        Paragraph(("one", "two"), 2),
        Paragraph((" \t",), 4),
        Paragraph(("",), 5),
        Paragraph(("three",), 6),
    ]


@given(st.lists(st.sampled_from(["", "  ", "a", "b c"])))
def test_no_line_is_lost_and_each_is_numbered(lines):
    found = list(paragraphs(lines))
    assert [line for paragraph in found for line in paragraph.lines] == lines
    assert all(lines[paragraph.number - 1] == paragraph.lines[0] for paragraph in found)
    assert all(bool(line.strip()) != paragraph.is_blank for paragraph in found for line in paragraph.lines)


def test_a_paragraph_is_served_before_what_follows_its_blank_line_is_read():
    def lines():
        yield from ["one", ""]
        raise AssertionError

    served = paragraphs(lines())
    assert next(served).lines == ("one",)
    assert next(served).is_blank


def test_a_paragraph_without_end_is_an_error_with_its_place(monkeypatch):
    monkeypatch.setattr(module, "MAX_CHARACTERS", 10)
    lines = ["ten letter", "", "six me", "four"]
    assert [paragraph.number for paragraph in paragraphs([*lines, "", "ten letter"])] == [1, 2, 3, 5, 6]
    with pytest.raises(DataError, match=r"line 5: the paragraph that begins at line 3 is longer than 10 characters"):
        list(paragraphs([*lines, "x"]))


@pytest.mark.parametrize(
    ("lines", "language", "text"),
    [
        (["The old man", "sleeps.  He snores."], "en", "The old man sleeps.  He snores."),
        (["  indented", "  text "], "en", "indented text"),
        (
            ["a well-", "known song - or", "two 1990-", "1995"],
            "en",
            "a well-known song - or two 1990- 1995",
        ),
        (["trans\u00ad", "lation"], "en", "translation"),
        (["trans\u00ad", "lation\u00ad"], "en", "translation\u00ad"),
        (["a\u00ad", "-", "b"], "en", "a-b"),
        (["今日は晴れ", "です。"], "ja", "今日は晴れです。"),
        (["使用 Linux", "kernel 的人"], "zh", "使用 Linux kernel 的人"),
        (["วันนี้ฝนตก", "เราอยู่บ้าน"], "th", "วันนี้ฝนตก เราอยู่บ้าน"),
    ],
)
def test_lines_are_unwrapped(lines, language, text):
    assert Paragraph(tuple(lines), 1).unwrapped(language) == text


def test_a_text_is_wrapped_as_its_paragraph():
    paragraph = Paragraph(("  A first line,", "here is a second one,", "a third."), 1)
    text = "Dies ist ein Text,  der in mehreren Zeilen steht, unteilbarelangewörterbleibenganz hier."
    assert paragraph.wrapped(text, "de") == [
        "  Dies ist ein Text,",
        "der in mehreren",
        "Zeilen steht,",
        "unteilbarelangewörterbleibenganz",
        "hier.",
    ]


def test_a_single_line_stays_one():
    assert Paragraph(("  short",), 1).wrapped("a very much longer text", "en") == ["  a very much longer text"]


def test_wide_characters_take_two_columns_and_no_line_begins_with_a_full_stop():
    assert columns("ab猫\u0301") == 4
    paragraph = Paragraph(("twelve chars", "twelve"), 1)
    assert paragraph.wrapped("今日はとても晴。使用 Linux kernel", "ja") == ["今日はとても", "晴。使用", "Linux kernel"]
    assert paragraph.wrapped("วันนี้ฝนตกหนัก เราอยู่บ้าน", "th") == ["วันนี้ฝนตกหนัก", "เราอยู่บ้าน"]


@given(
    st.text(st.sampled_from("ab 猫。（）- "), min_size=1).filter(str.strip),
    st.integers(1, 12),
    st.sampled_from(["de", "ja"]),
)
def test_wrapping_loses_nothing(text, width, language):
    lines = Paragraph(("x" * width, "y"), 1).wrapped(text, language)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(columns(line) <= width or len(line.split()) == 1 for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_each_paragraph_gets_its_translation_window_by_window():
    class Translator:
        source_lang = "en"

        def translate_windows(self, lines):
            for window in windows(lines, 2, lambda line: len(line.text)):
                yield [line.text.upper() for line in window if line.prefix == ""]

    found = list(module.translate_paragraphs(Translator(), ["one two", "three", "", "four", "five six"]))
    assert [[(paragraph.number, text) for paragraph, text in window] for window in found] == [
        [(1, "ONE TWO THREE"), (3, "")],
        [(4, "FOUR FIVE SIX")],
    ]


def test_errors_name_a_paragraph_by_its_first_line():
    class Translator:
        source_lang = "en"

        def translate_windows(self, lines):
            for window in windows(lines, 2, lambda line: len(line.text)):
                yield [line.name for line in window]

    text = ["one", "two", "", "four", "", "", "seven", "eight"]
    found = [pair for window in module.translate_paragraphs(Translator(), text) for pair in window]
    assert [named for _, named in found] == [1, 3, 4, 5, 6, 7]
    assert all(paragraph.number == named for paragraph, named in found)
    rest = [
        pair for window in module.translate_paragraphs(Translator(), text[3:], done=2, done_lines=3) for pair in window
    ]
    assert rest == found[2:]
