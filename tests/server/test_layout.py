"""What stands between the lines of a text stays where it was."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.documents.html import Tags
from nmt.server.layout import between, filled, layout_of
from nmt.translation.results import TranslatedText, Translation
from tests.growth import assert_linear

TEXTS = st.text(st.sampled_from("ab.\n\r\t \u00a0\u2028\u3000ä字\0")) | st.text()
SCRIPT = "<script>if (a < b) { '<p>' }</script>"


def lines_of(layout) -> list[str]:
    return [unit.text for unit in layout.units]


def filled_with(layout, texts) -> str:
    """The layout with translations; each word comes from the word at its place, if there are so many."""
    translations = []
    for line, text in zip(lines_of(layout), texts, strict=True):
        pieces, found = ([f"▁{word}" for word in each.split()] for each in (line, text))
        alignment = tuple(min(index, len(pieces) - 1) for index in range(len(found)))
        best = TranslatedText(text, tuple(found), 0.0, 0.0, alignment=alignment if pieces else None)
        translations.append(Translation(line, (best,), tuple(pieces)))
    return filled(layout, translations)


@given(TEXTS)
def test_a_text_filled_with_its_own_lines_is_the_text(text):
    layout = layout_of(text, "en")
    assert filled_with(layout, lines_of(layout)) == text
    assert all(line == line.strip() and line and "\n" not in line for line in lines_of(layout))
    assert len(between(layout)) == len(lines_of(layout)) + 1


@given(TEXTS)
def test_wrapped_lines_are_joined_to_paragraphs(text):
    layout = layout_of(text, "en", newlines="wrap")
    written = filled_with(layout, lines_of(layout))
    joined = "".join(f"{line}\n" if line.strip() else "\n" for line in written.split("\n"))
    assert written.split() == joined.split()
    assert all(line == line.strip() and line for line in lines_of(layout))


def test_an_empty_line_ends_a_paragraph():
    layout = layout_of("The man\nsleeps.\n\n The dog\nbarks.\n", "en", newlines="wrap")
    assert lines_of(layout) == ["The man sleeps.", "The dog barks."]
    assert filled_with(layout, ["A", "B"]) == "A\n\nB\n"


def test_the_white_space_around_lines_stays():
    layout = layout_of("  one\r\n\n\ttwo \n", "en")
    assert lines_of(layout) == ["one", "two"]
    assert filled_with(layout, ["1", "2"]) == "  1\r\n\n\t2 \n"


def test_tags_comments_and_scripts_stay_in_html():
    text = "<!-- c --><h1>One\n  two</h1>\n<p> three<br>four </p><script>var a = '<p>five</p>';</script>"
    layout = layout_of(text, "en", tags=Tags())
    assert lines_of(layout) == ["One two", "three", "four"]
    assert (
        filled_with(layout, ["1", "3 < 4", "&"])
        == "<!-- c --><h1>1</h1>\n<p> 3 &lt; 4<br>&amp; </p><script>var a = '<p>five</p>';</script>"
    )


@pytest.mark.parametrize(
    ("text", "lines", "texts", "expected"),
    [
        ("<p>The <b>man</b> sleeps.", ["The man sleeps."], ["Der Mann schläft."], "<p>Der <b>Mann</b> schläft."),
        ("a <a href='x'>b</a>, c", ["a b, c"], ["x y, z"], "x <a href='x'>y,</a> z"),
        ("<p><b>One.</b> <i>Two.</i></p>", ["One. Two."], ["Eins. Zwei."], "<p><b>Eins.</b> <i>Zwei.</i></p>"),
        ("Press <code>q</code> now", ["Press q now"], ["Drücke q jetzt"], "Drücke <code>q</code> jetzt"),
        ("Press <code>q</code> now", ["Press q now"], ["Drücke w jetzt"], "Drücke <code>q</code> jetzt"),
        ("<b>R&amp;D</b> &lt;3", ["R&D <3"], ["F&E <3"], "<b>F&amp;E</b> &lt;3"),
        ("<p translate=no>no <b>word</b></p>yes", ["yes"], ["ja"], "<p translate=no>no <b>word</b></p>ja"),
        ("A <a><b>man</b> <img></a>", ["A man"], ["Ein Mann"], "Ein <a><b>Mann</b> <img></a>"),
        ("<b>A </b><i> </i><u>dog</u>", ["A dog"], ["Ein Hund"], "<b>Ein </b><i> </i><u>Hund</u>"),
        ("See <a>more <i></i></a>", ["See more"], ["Siehe mehr"], "Siehe <a>mehr <i></i></a>"),
        ("<img alt='a picture'> text", ["text"], ["Text"], "<img alt='a picture'> Text"),
    ],
)
def test_tags_within_a_sentence_stand_round_their_words(text, lines, texts, expected):
    layout = layout_of(text, "en", tags=Tags())
    assert lines_of(layout) == lines
    assert [unit.text for unit in layout.units if unit.spans] == [each for each in lines if each not in ("yes", "text")]
    assert filled_with(layout, texts) == expected


def test_escaped_markup_stays_escaped():
    text = "Use &lt;img src=x onerror=alert(1)&gt; here"
    layout = layout_of(text, "en", tags=Tags())
    assert filled_with(layout, lines_of(layout)) == text


def test_other_copies_of_code_stay():
    layout = layout_of("Press <code>1</code> or 10", "en", tags=Tags())
    assert filled_with(layout, ["Drücke 1 oder 10"]) == "Drücke <code>1</code> oder 10"


def test_further_candidates_are_placed_too():
    layout = layout_of("a <b>c</b>", "en", tags=Tags())
    words = [TranslatedText(text, tuple(f"▁{word}" for word in text.split()), 0.0, 0.0, alignment=order)
             for text, order in (("x y", (0, 1)), ("y x", (1, 0)))]  # fmt: skip
    found = Translation("a c", tuple(words), ("▁a", "▁c"))
    assert [filled(layout, [found], rank) for rank in range(3)] == ["x <b>y</b>", "<b>y</b> x", "<b>y</b> x"]


def test_further_elements_are_kept():
    text = "<td>one</td><x>two <y>three</y></x><p>four"
    assert lines_of(layout_of(text, "en", tags=Tags(kept=frozenset(["td", "x"])))) == ["four"]


@pytest.mark.parametrize("unit", ["\n", " ", "a\n"])
@pytest.mark.parametrize("newlines", ["end", "wrap"])
def test_time_grows_with_the_length_of_a_text(unit, newlines):
    def divide_and_fill(text):
        layout = layout_of(text, "en", newlines=newlines)
        filled_with(layout, lines_of(layout))

    assert_linear(divide_and_fill, unit, 5_000)


OPEN = [
    "<b></i>", "</p><b>", "a.<b> ", "a<!---->", "<p translate", "<p translate=no>a", "<svg>a", "<textarea>",
    "<![CDATA[", "<", "<!", "<!--", "&", "&#", "<p>", "<p ", "<p", "<a-", "a<br>", "<style", "<script>", "</script",
    SCRIPT, "<p '", "<p a='", '<p "', "<p '\"", "'", "a\n", "<b>a ", "{a} ", "<b>{a}</b> ",
]  # fmt: skip
UNENDED = [("<", "a"), ("<p", " a"), ("<!", "a"), ("&#", "9"), ("&", "a"), ("<p a='", "<"), ("<p ", "'"), ("<p '", ">")]


@pytest.mark.parametrize(
    ("begin", "unit"),
    [*itertools.product([""], OPEN), *UNENDED, ("<p ", '"a"'), ("<p a=b ", "a")],
    ids=lambda text: text or "-",
)
@pytest.mark.parametrize("end", ["", ">"])
def test_time_grows_with_the_length_of_html(begin, unit, end):
    assert_linear(lambda text: layout_of(text, "en", tags=Tags()), unit, 2_000, begin=begin, end=end)
