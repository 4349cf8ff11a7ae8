"""What stands between the lines of a text stays where it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.serve.errors import RequestError
from nmt.serve.layout import Layout
from tests.growth import assert_linear

TEXTS = st.text(st.sampled_from("ab.\n\r\t \u00a0\u2028\u3000ä字\0")) | st.text()
WORDS = st.text(st.sampled_from("abc.ä字'\"=/:;-"), min_size=1)
SCRIPT = "<script>if (a < b) { '<p>' }</script>"
TAGS = st.sampled_from(
    [
        "<p>",
        "</p>",
        '<p class="a b">',
        "<br/>",
        "<BR>",
        "<!-- a\nb <p> -->",
        "<!DOCTYPE html>",
        "<li >",
        "<?x?>",
        SCRIPT,
    ]
)
HTML = st.lists(TAGS | WORDS | st.sampled_from([" ", "\n", "\t", "  "])).map("".join)


@given(TEXTS)
def test_a_text_filled_with_its_own_lines_is_the_text(text):
    layout = Layout.of(text, "en")
    assert layout.filled(layout.lines) == text
    assert all(line == line.strip() and line and "\n" not in line for line in layout.lines)
    assert len(layout.between) == len(layout.lines) + 1


@given(HTML)
def test_html_filled_with_its_own_lines_is_the_html(text):
    layout = Layout.of_html(text, "en")
    assert layout.filled(layout.lines).split() == text.split()
    assert all(line == line.strip() and line for line in layout.lines)


@given(TEXTS)
def test_wrapped_lines_are_joined_to_paragraphs(text):
    layout = Layout.of(text, "en", "wrap")
    assert (
        layout.filled(layout.lines).split()
        == "".join(f"{line}\n" if line.strip() else "\n" for line in layout.filled(layout.lines).split("\n")).split()
    )
    assert all(line == line.strip() and line for line in layout.lines)


def test_an_empty_line_ends_a_paragraph():
    layout = Layout.of("The man\nsleeps.\n\n The dog\nbarks.\n", "en", "wrap")
    assert layout.lines == ["The man sleeps.", "The dog barks."]
    assert layout.filled(["A", "B"]) == "A\n\nB\n"


def test_the_white_space_around_lines_stays():
    layout = Layout.of("  one\r\n\n\ttwo \n", "en")
    assert layout.lines == ["one", "two"]
    assert layout.filled(["1", "2"]) == "  1\r\n\n\t2 \n"


def test_tags_comments_and_scripts_stay_in_html():
    text = "<!-- c --><h1>One\n  two</h1>\n<p> three<br>four </p><script>var a = '<p>five</p>';</script>"
    layout = Layout.of_html(text, "en")
    assert layout.lines == ["One two", "three", "four"]
    assert (
        layout.filled(["1", "3 < 4", "&"])
        == "<!-- c --><h1>1</h1>\n<p> 3 &lt; 4<br>&amp; </p><script>var a = '<p>five</p>';</script>"
    )


def test_references_are_translated_as_their_characters():
    assert Layout.of_html("<p>R&amp;D &lt;3 caf&eacute; &#228;</p>", "en").lines == ["R&D <3 café ä"]
    assert Layout.of_html(f"a &#{'9' * 9_000}; b", "en").lines == ["a \ufffd b"]


def test_a_newline_in_html_is_a_space_only_where_the_language_has_spaces():
    assert Layout.of_html("<p>今天天气\n  很好。\r\n\r\n我们去。</p>", "zh").lines == ["今天天气很好。我们去。"]
    assert Layout.of_html("<p>The man\n \n sleeps.</p>", "en").lines == ["The man sleeps."]


def test_no_break_spaces_around_a_text_stay():
    layout = Layout.of_html("<p>&nbsp;one&#160;two \u00a0</p><p>&nbsp;</p>", "en")
    assert layout.lines == ["one two"]
    assert layout.filled(["1"]) == "<p>\u00a01 \u00a0</p><p>&nbsp;</p>"


@pytest.mark.parametrize("tag", ["<script/>", "<style />", "<script src='a>b'/>"])
def test_an_empty_script_ends_at_once(tag):
    assert Layout.of_html(f"<p>one</p>{tag}two<p>three", "en").lines == ["one", "two", "three"]


def test_cdata_is_refused():
    with pytest.raises(RequestError, match=r"<!\[CDATA\[ is not supported yet"):
        Layout.of_html("<p><![CDATA[a < b]]></p>", "en")
    assert Layout.of_html("<script>//<![CDATA[\n//]]></script>a", "en").lines == ["a"]


@pytest.mark.parametrize(
    "tag", ['<p title="a > b">', "<p title='a > \"b'>", '<p a="1" b=">" c>', "<p title=a'>", '<p title="a>', "<p '\">"]
)
def test_a_sign_in_quotes_does_not_end_a_tag(tag):
    layout = Layout.of_html(f"{tag}x</p>", "en")
    assert (layout.lines, layout.between) == (["x"], [tag, "</p>"])


def test_a_whole_page_is_translated():
    head = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><base href="/"><link rel="icon" href="a.png">'
    text = f"{head}<title>One</title><script>a()</script></head><body><menu><li>two</menu><noscript>three</noscript>"
    assert Layout.of_html(text, "en").lines == ["One", "two", "three"]


@pytest.mark.parametrize("text", ["a < b", "<", "1<2", "a <3 b>", "<>", "< p>"])
def test_a_sign_is_not_a_tag(text):
    assert Layout.of_html(text, "en").lines == [text]


@pytest.mark.parametrize("tag", ["<b>", "<a href='x'>", "</span>", "<my-element>", "<svg:path>"])
def test_a_tag_inside_a_sentence_is_refused_by_its_name(tag):
    with pytest.raises(RequestError, match=tag.strip("</>").split()[0]) as refused:
        Layout.of_html(f"<p>The {tag}man sleeps.", "en")
    assert refused.value.status == 400


@pytest.mark.parametrize("unit", ["\n", " ", "a\n"])
@pytest.mark.parametrize("newlines", ["end", "wrap"])
def test_time_grows_with_the_length_of_a_text(unit, newlines):
    assert_linear(
        lambda text: Layout.of(text, "en", newlines).filled(Layout.of(text, "en", newlines).lines), unit, 5_000
    )


OPEN = [
    "<",
    "<!",
    "<!--",
    "&",
    "&#",
    "<p>",
    "<p ",
    "<p",
    "<a-",
    "a<br>",
    "<style",
    "<script>",
    "</script",
    SCRIPT,
    "<p '",
    '<p "',
    "<p '\"",
    "'",
    "a\n",
]


@pytest.mark.parametrize("unit", OPEN)
def test_time_grows_with_the_length_of_html(unit):
    assert_linear(lambda text: Layout.of_html(text, "en"), unit, 5_000)


@pytest.mark.parametrize(
    ("begin", "unit"),
    [
        ("<", "a"),
        ("<p", " a"),
        ("<!", "a"),
        ("&#", "9"),
        ("&", "a"),
        ("<p a='", "<"),
        ("<p ", "'"),
        ("<p ", '"a"'),
        ("<p '", ">"),
    ],
)
def test_a_tag_without_an_end_takes_no_longer(begin, unit):
    assert_linear(lambda text: Layout.of_html(text, "en"), unit, 5_000, begin=begin)
