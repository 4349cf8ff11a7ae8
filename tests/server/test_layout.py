"""What stands between the lines of a text stays where it was."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.server.errors import RequestError
from nmt.server.layout import Layout
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
    found = layout.filled(layout.lines)
    assert sorted("".join(found.split())) == sorted("".join(text.split()))
    assert found.split() == text.split() or "<!" in text or "<?" in text or SCRIPT in text  # these move out of a text
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


HEAD = '<html lang="en"><head><meta charset="utf-8"><base href="/"><link rel="icon" href="a.png"><title>One</title>'
# Texts, the language that they are in, and the lines of them.
DIVIDED = [
    ("<p>R&amp;D &lt;3 caf&eacute; &#228;</p>", "en", ["R&D <3 café ä"]),
    (f"a &#{'9' * 9_000}; b", "en", ["a \ufffd b"]),
    ("<p>今天天气\n  很好。\r\n\r\n我们去。</p>", "zh", ["今天天气很好。我们去。"]),  # without spaces
    ("<p>The man\n \n sleeps.</p>", "en", ["The man sleeps."]),
    *(
        (f"<p>one</p>{tag}two<p>three", "en", ["one", "two", "three"])
        for tag in ("<script/>", "<style />", "<p src='>'/>")
    ),
    ("<script>//<![CDATA[\n//]]></script>a", "en", ["a"]),
    (f"<!DOCTYPE html>{HEAD}<script>a()</script></head><body><menu><li>two</menu>", "en", ["One", "two"]),
    *((sign, "en", [sign]) for sign in ("a < b", "<", "1<2", "a <3 b>", "<>", "< p>")),
    *(
        (f"{tag}x</p>", "en", ["x"])  # a sign in quotes does not end a tag
        for tag in ('<p title="a > b">', "<p t='a > \"b'>", '<p a="1" b=">" c>', "<p t=a'>", '<p t="a>', "<p '\">")
    ),
]


@pytest.mark.parametrize(("text", "language", "lines"), DIVIDED)
def test_html_is_divided_into_lines(text, language, lines):
    assert Layout.of_html(text, language).lines == lines


def test_no_break_spaces_around_a_text_stay():
    layout = Layout.of_html("<p>&nbsp;one&#160;two \u00a0</p><p>&nbsp;</p>", "en")
    assert layout.lines == ["one two"]
    assert layout.filled(["1"]) == "<p>\u00a01 \u00a0</p><p>&nbsp;</p>"


def test_cdata_is_refused():
    with pytest.raises(RequestError, match=r"<!\[CDATA\[ is not supported yet"):
        Layout.of_html("<p><![CDATA[a < b]]></p>", "en")


SENTENCES = ["The man sleeps.", "The dog barks."]


@pytest.mark.parametrize(
    "text",
    [
        "<b>{}</b>",
        "<p><a href=x><i>{}</i></a></p>",
        "<p><b>{}</b> {}</p>",
        "<p>{} <a href=x>{}</a></p>",
        "<p><b>{}</b>\n<i>{}</i></p>",
        "<p><img src=a.png></p><p>{}",
        "<p><img src=a.png> {}</p>",
        "<label><input type=checkbox> {}</label>",
        "<p>{}<sup></sup></p>",
        "<button>{}</button> <button>{}</button>",
        "<a><svg><title>Home</title><path d='M0'/></svg> {}</a>",
        "<iframe src=x><p>no</iframe><pre>a\n <b>b</b>\n</pre>{}",
        "<select><option>{}<option>{}</select>",
        "<textarea><b>no</textarea><p>{}</p><video controls>no <b>video</b> here</video>",
        "{}<br>\n<!-- c --><p>{}",
        "<p translate=no>no <b>word</b> here</p>{}",
        "<P CLASS='a notranslate'>no</P>{}",
        "<div translate='NO'>no<p>no<p translate=yes>{}</p>no</div>{}",
        "<ul><li translate=no>no<li>{}</ul><dl><dt translate=no>no<dd>{}</dl>",
        "<table><tr><td translate=no>no<td>{}<tr><td>{}</table>",
        "<table><tr translate=no><td>no<tr><td>{}</table><ul><li translate=no><p>no<li>{}</ul>",
        "<p translate=no>no<p>{}<div class=notranslate><br>no<img>no</div>{}",
        "<p>{}</p><p><code>ls -l</code></p><kbd>Ctrl</kbd><p>{}</p><samp>no</samp><p><var>x</var></p>",
        "<style translate=yes>p :hover</style>{}<svg><![CDATA[<p>]]></svg>",
        "<ul translate=no><li>no<ul><li>no</ul>no</ul><div class=notranslate><div>no</div>no</div>{}",
        "<html translate=no><title>no</title><body><p>no <b>words</b> here",
        "<p>no</p>".join(["<template>", "</template>{}"]),
        "<translate>{}</translate>",
        "<p data-translate=no>{}</p><p title='translate=no'>{}</p>",
        "<b>{}</b>. <i><a>{}</a></i>!",
        "(<i>{}</i>) <b> [<i>{}</i> ]</b>",
        "“<em>{}</em>” &laquo;<em>{}</em>&raquo;",
        "<p>1. <b>{}</b><p>(b) <b>{}</b>",
        "<li>• <b>{}</b>: <br>– <b>{}</b> …",
        "<p>1. “<b>{}</b>” <p>2. – <b>{}</b> (12)",
        "<p>{} <a href='#1'>[1]</a><p>{}<sup>1</sup>",
        "{} <span translate=no>Anna.</span> {}",
        "<b>{}</b> <span translate=no>Anna</span>",
        "<span class=notranslate>Anna: no!</span> <b>{}</b>",
    ],
)
def test_what_is_beside_no_text_and_what_is_not_translated_stay(text):
    layout = Layout.of_html(text.format(*SENTENCES), "en")
    assert layout.lines == SENTENCES[: text.count("{}")]
    assert layout.filled(["<1>", "<2>"][: text.count("{}")]) == text.format("&lt;1&gt;", "&lt;2&gt;")


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("<p>The <b>man sleeps.", "<b>"),
        ("<p>The <a href='x'>man sleeps.", "<a>"),
        ("<p>The </span>man sleeps.", "<span>"),
        ("The <my-element>man</my-element>", "<my-element>"),
        ("The <svg:path>man", "<svg:path>"),
        ("The <img> man sleeps.", "<img>"),
        ("Press <code>q</code>", "<code>"),
        ("<code>q</code> ends it.", "<code>"),
        ("<span translate=no>Anna</span> sleeps.", "<span>"),
        ("Press <button>OK</button> now.", "<button>"),
        ("Mr. <b>Smith sleeps.</b>", "<b>"),
        ("<b>Note:</b> The man sleeps.", "<b>"),
        ("<i>The</i> <i>man</i>", "<i>"),
        ("<b>The man</b>, who sleeps", "<b>"),
        ("<b>The man</b>, <i>the dog</i>", "<i>"),
        ("<b>The man</b> (<i>the dog</i>)", "<i>"),
        ("It is rule <b>1.</b>", "<b>"),
        ("The man <span translate=no>Bob</span>", "<span>"),
        ("<x/> files", "<x>"),
        ("files <x>a</x>", "<x>"),
    ],
)
def test_a_tag_inside_a_sentence_is_refused_by_its_name(text, tag):
    with pytest.raises(RequestError, match=f"^{tag} stands inside a sentence, and") as refused:
        Layout.of_html(text, "en", {"x"})
    assert refused.value.status == 400


def test_a_mark_behind_a_tag_is_not_doubled():
    layout = Layout.of_html("1. (<b>The man sleeps</b>.)<p><i>The dog barks!</i>!<p><b>Why</b> <i>?</i>", "en")
    assert layout.lines == ["The man sleeps", "The dog barks!", "Why"]
    assert layout.filled(["1.", "2!", "3."]) == "1. (<b>1</b>.)<p><i>2!</i>!<p><b>3</b> <i>?</i>"


def test_a_mark_behind_a_tag_is_apart_from_the_sentence_that_follows_it():
    layout = Layout.of_html("<b>The man sleeps</b>. The dog barks<!-- a -->.", "en")
    assert layout.lines == ["The man sleeps", "The dog barks."]
    assert layout.filled(["1", "2"]) == "<b>1</b>. 2<!-- a -->"


def test_a_comment_within_a_text_comes_after_it():
    layout = Layout.of_html("<p>The <!-- a -->man<!-- b --><script>c</script> sleeps. <!-- d --></p>", "en")
    assert layout.lines == ["The man sleeps."]
    assert layout.filled(["1"]) == "<p>1 <!-- a --><!-- b --><script>c</script><!-- d --></p>"


def test_further_elements_are_kept():
    text = "<td>one</td><x>two <y>three</y></x><p>four"
    assert Layout.of_html(text, "en", {"td", "x"}).lines == ["four"]


@pytest.mark.parametrize("unit", ["\n", " ", "a\n"])
@pytest.mark.parametrize("newlines", ["end", "wrap"])
def test_time_grows_with_the_length_of_a_text(unit, newlines):
    assert_linear(
        lambda text: Layout.of(text, "en", newlines).filled(Layout.of(text, "en", newlines).lines), unit, 5_000
    )


OPEN = [
    "<b></i>", "</p><b>", "a.<b> ", "a<!---->", "<p translate", "<p translate=no>a", "<svg>a", "<textarea>",
    "<![CDATA[", "<", "<!", "<!--", "&", "&#", "<p>", "<p ", "<p", "<a-", "a<br>", "<style", "<script>", "</script",
    SCRIPT, "<p '", '<p "', "<p '\"", "'", "a\n",
]  # fmt: skip


@pytest.mark.parametrize("unit", OPEN)
def test_time_grows_with_the_length_of_html(unit):
    def divide(text):
        with contextlib.suppress(RequestError):
            Layout.of_html(text, "en")

    assert_linear(divide, unit, 5_000)


UNENDED = [("<", "a"), ("<p", " a"), ("<!", "a"), ("&#", "9"), ("&", "a"), ("<p a='", "<"), ("<p ", "'"), ("<p '", ">")]


@pytest.mark.parametrize(("begin", "unit"), [*UNENDED, ("<p ", '"a"')])
def test_a_tag_without_an_end_takes_no_longer(begin, unit):
    assert_linear(lambda text: Layout.of_html(text, "en"), unit, 5_000, begin=begin)
