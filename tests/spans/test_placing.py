"""Spans are placed in a translation: none is lost, doubled or crossed, whatever the model writes and aligns."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.spans.links import Link, by_place, links, through
from nmt.spans.placing import place
from nmt.spans.span import Span, Unit
from tests.growth import assert_linear

MARK = re.compile(r"<(/?)(\d+)(v?)>")


def marked(text: str, *spans: tuple) -> Unit:
    return Unit(text, tuple(Span(*span) for span in spans))


WORDS = [Link(0, 3, 0, 3), Link(4, 9, 4, 7), Link(10, 14, 8, 11), Link(15, 20, 12, 16), Link(21, 27, 17, 23)]


@pytest.mark.parametrize(
    ("unit", "output", "alignment", "expected"),
    [
        (marked("the big dog", (4, 7, "<b>", "</b>")), "der große Hund", WORDS[:3], "der <b>große</b> Hund"),
        (
            marked("red wine", (0, 3, "<b>", "</b>"), (4, 8, "<i>", "</i>")),  # the words change places
            "vin rouge", [Link(0, 3, 4, 8), Link(4, 9, 0, 3)], "<i>vin</i> <b>rouge</b>",
        ),
        (
            marked("a red wine", (0, 10, "<p>", "</p>"), (2, 10, "<a>", "</a>"), (2, 5, "<b>", "</b>")),
            "un vin rouge", [Link(0, 2, 0, 1), Link(3, 6, 6, 10), Link(7, 12, 2, 5)],
            "<p>un <a>vin <b>rouge</b></a></p>",
        ),
        (marked("one two", (3, 3, "<br>")), "eins zwei", [Link(0, 4, 0, 3), Link(5, 9, 4, 7)], "eins<br> zwei"),
        (
            marked("Hi {name}, hi", (3, 9, "", "", "{name}")), "Hallo {name}, hallo",
            [Link(0, 5, 0, 2), Link(6, 12, 3, 9), Link(14, 19, 11, 13)], "Hallo {name}, hallo",
        ),
        # The model lost a placeholder, wrote it twice, or wrote it outside of its tag.
        (
            marked("Hi {name} there", (3, 9, "", "", "{name}")), "Hallo da", [Link(0, 5, 0, 2), Link(6, 8, 10, 15)],
            "Hallo {name} da",
        ),
        (marked("Hi {n}", (3, 6, "", "", "{n}")), "Hallo {n} {n}", [Link(0, 5, 0, 2), Link(6, 9, 3, 6)], "Hallo {n} "),
        (
            marked("<{n}> x", (0, 5, "<b>", "</b>"), (1, 4, "", "", "{n}")), "x {n}", [Link(0, 1, 6, 7)],
            "x <b>{n}</b>",
        ),
        (marked("run f(x) now", (4, 8, "<code>f(x)</code>", "", "")), "f(x) läuft", [Link(5, 10, 0, 3)],
         "<code>f(x)</code> läuft"),
        (marked("a {n} {m} b", (2, 5, "", "", "{n}"), (6, 9, "", "", "{m}")), "x", [Link(0, 1, 0, 1)], "x {n} {m}"),
        (marked("{n} x", (0, 3, "", "", "{n}")), "गर्मी{n}", [Link(0, 5, 4, 5), Link(5, 8, 0, 3)], "गर्मी {n}"),
        # Where a script without spaces has none, one with spaces needs them.
        (marked("打开{n}书", (2, 5, "", "", "{n}")), "Open it", [Link(0, 4, 0, 2), Link(5, 7, 5, 6)], "Open {n} it"),
        (marked("{n}さん、", (0, 3, "", "", "{n}")), "Hello", [Link(0, 5, 3, 5)], "{n} Hello"),
        (marked("{n}개, {n}", (0, 3, "", "", "{n}"), (6, 9, "", "", "{n}")), "of", [Link(0, 2, 3, 4)], "{n} of {n}"),
        (marked("打开{n}文件", (2, 5, "", "", "{n}")), "開く本", [Link(0, 2, 0, 2), Link(2, 3, 5, 7)], "開く{n}本"),
        (marked("a{n}s", (1, 4, "", "", "{n}")), "b", [Link(0, 1, 0, 1)], "b{n}"),
        # The same characters elsewhere are no copies.
        (
            marked("Press - for e-mail", (6, 7, "<kbd>-</kbd>", "", "")), "Für E-Mail - drücken",
            [Link(0, 3, 8, 11), Link(4, 10, 12, 18), Link(11, 12, 6, 7), Link(13, 20, 0, 5)],
            "Für E-Mail <kbd>-</kbd> drücken",
        ),
        (marked("set in now", (4, 6, "<i>in</i>", "", "")), "innen ist da", [Link(0, 5, 0, 3), Link(10, 12, 7, 10)],
         "innen <i>in</i> ist da"),
        # Of equal copies, the one with letters beside it is the one that had them.
        (marked("f and fs", (0, 1, "<i>f</i>", "", ""), (6, 7, "<b>f</b>", "", "")), "fs und f",
         [Link(0, 2, 6, 8), Link(7, 8, 0, 1)], "<b>f</b>s und <i>f</i>"),
        (marked("f and fs", (0, 1, "<i>f</i>", "", ""), (6, 7, "<b>f</b>", "", "")), "f und f", WORDS[:1],
         "<i>f</i> und <b>f</b>"),
        # Pieces of a word that come from several words: the word is not divided, but that of a compound is.
        (marked("I like driving", (2, 6, "<i>", "</i>"), (7, 14, "<b>", "</b>")), "Ich fahre gern",
         [Link(0, 3, 0, 1), Link(4, 8, 7, 14), Link(8, 9, 2, 6), Link(10, 14, 2, 6)], "Ich <b>fahre</b> <i>gern</i>"),
        (marked("a like b", (2, 6, "<i>", "</i>")), "gerne bx", [Link(0, 4, 2, 6), Link(4, 5, 0, 1), Link(6, 8, 7, 8)],
         "<i>gerne</i> bx"),
        (marked("a sled dog", (7, 10, "<b>", "</b>")), "Schlittenhund", [Link(0, 9, 2, 6), Link(9, 13, 7, 10)],
         "Schlitten<b>hund</b>"),
        (marked("un der", (0, 2, "<b>", "</b>"), (3, 3, "<br>")), "oder un", [Link(0, 2, 0, 2), Link(2, 4, 3, 6)],
         "<b>od</b>er <br>un"),
        # Nothing comes from a word: its tag holds the nearest word that is free.
        (marked("a red shirt", (2, 5, "<i>", "</i>")), "ein rotes Hemd", [Link(0, 3, 0, 1), Link(4, 14, 6, 11)],
         "ein <i>rotes</i> Hemd"),
        (marked("so red it is", (3, 6, "<i>", "</i>"), (7, 12, "<b>", "</b>")), "ganz 红色的",
         [Link(0, 4, 0, 2), Link(6, 8, 7, 12)], "ganz <i>红</i><b>色的</b>"),
        (marked("red it", (0, 3, "<i>", "</i>"), (4, 6, "<b>", "</b>")), "es", [Link(0, 2, 4, 6)], "<i></i><b>es</b>"),
        # Without an alignment, no word of the sentence is taken for what is kept.
        (marked("now press Enter here", (10, 15, "<kbd>Enter</kbd>", "", "")), "jetzt die Taste hier drücken", [],
         "jetzt die Taste <kbd>Enter</kbd> hier drücken"),
        (marked("a < b", (0, 1, "<i>", "</i>")), "a < b", [Link(0, 1, 0, 1)], "<i>a</i> &lt; b"),
        (marked("", (0, 0, "<br>")), "", [], "<br>"),
        (marked("word", (0, 4, "<b>", "</b>")), "", [], "<b></b>"),
    ],
)  # fmt: skip
def test_spans_stand_where_their_words_went(unit, output, alignment, expected):
    assert place(unit, output, alignment, lambda text: text.replace("<", "&lt;")) == expected


@st.composite
def units(draw) -> Unit:
    """Texts with spans that nest; markup names its span."""
    words = draw(st.lists(st.sampled_from(["ab", "c", "{x}", "%s", "é", "."]), max_size=8))
    text = draw(st.sampled_from(["", " "])).join(words)
    spans: list[Span] = []

    def add(start: int, end: int, depth: int) -> None:
        at = start
        while at <= end and len(spans) < 9 and draw(st.booleans()):
            begin = draw(st.integers(at, end))
            stop = draw(st.integers(begin, end))
            name = len(spans)
            kind = draw(st.sampled_from(["pair", "void", "kept", "raw"]))
            if kind == "void" or begin == stop:
                spans.append(Span(begin, begin, f"<{name}v>"))
                stop = begin
            elif kind == "pair":
                spans.append(Span(begin, stop, f"<{name}>", f"</{name}>"))
                if depth < 3:
                    add(begin, stop, depth + 1)
            elif kind == "kept":
                spans.append(Span(begin, stop, f"<{name}v>", "", text[begin:stop].replace("<", "")))
            else:
                spans.append(Span(begin, stop, f"<{name}v>", "", ""))
            at = stop + draw(st.integers(0, 2))

    add(0, len(text), 0)
    return Unit(text, tuple(spans))


@st.composite
def translations(draw):
    """A unit, any output, and any links between the two."""
    unit = draw(units())
    output = draw(st.text(alphabet="abc {}x%sé.", max_size=30))
    ends = sorted(draw(st.sets(st.integers(0, len(output)), max_size=12)))
    size = len(unit.text)
    found = []
    for start, end in itertools.pairwise(ends):
        if draw(st.booleans()):
            source = draw(st.integers(0, max(size - 1, 0)))
            found.append(Link(start, end, source, draw(st.integers(source, size))))
    return unit, output, found


@given(translations())
def test_nothing_is_lost_doubled_or_crossed(case):
    unit, output, alignment = case
    written = place(unit, output, alignment)
    opened, seen = [], []
    holder = {}
    for slash, name, void in MARK.findall(written):
        if slash:
            assert opened.pop() == name
        else:
            seen.append(name)
            holder[name] = opened[-1] if opened else None
            opened += [] if void else [name]
    assert not opened
    assert sorted(seen, key=int) == [str(number) for number in range(len(unit.spans))]
    rest = MARK.sub("", written)
    kept = [span.text for span in unit.spans if span.text is not None]
    for text in filter(None, kept):
        assert text in rest
    if not kept:
        assert rest == output  # the model's text is all there
    for number, span in enumerate(unit.spans):
        inner = [other for other, each in enumerate(unit.spans[number + 1 :], number + 1)
                 if span.text is None and span.start < span.end and span.start <= each.start and each.end <= span.end
                 and each.end < span.end]  # fmt: skip
        for other in inner:  # what a span holds stays in it
            above = holder[str(other)]
            while above is not None and above != str(number):
                above = holder[above]
            assert above == str(number)


@given(st.text(alphabet="ab .", max_size=9), st.text(alphabet="ab .", max_size=30), st.data())
def test_a_pair_of_tags_that_held_a_word_holds_one(before, output, data):
    unit = Unit(f"{before}word c", (Span(len(before), len(before) + 4, "<i>", "</i>"),))
    edges = sorted(data.draw(st.sets(st.integers(0, len(output)), max_size=8)))
    of_any = st.integers(0, len(unit.text) - 1).map(lambda start: (start, start + 1))
    alignment = [Link(*edge, *data.draw(of_any)) for edge in itertools.pairwise(edges)]
    held = re.search("<i>(.*)</i>", place(unit, output, alignment))[1]
    assert held.strip() or not output.strip(" .")


@pytest.mark.parametrize(
    ("output", "start", "expected"),
    [
        ("geh 15 nun", 4, "geh http://a.b/2 5 nun"),
        ("geh 1.5 nun", 4, "geh http://a.b/2 .5 nun"),
        ("geh 1.5 nun", 6, "geh 1. http://a.b/2 nun"),
        ("geh 1. nun", 4, "geh http://a.b/2. nun"),
    ],
)
def test_what_replaces_a_part_of_a_number_does_not_touch_the_rest(output, start, expected):
    unit = marked("go http://a.b/2 1.5 now", (3, 15, "", "", "http://a.b/2"))
    assert place(unit, output, [Link(0, 3, 0, 2), Link(start, start + 1, 3, 15)]) == expected


def test_links_come_from_pieces():
    found = links("Der Hund, ja", ["▁Der", "▁Hu", "nd", ",", "▁ja"], "the dog yes", ["▁the", "▁dog", "▁yes"], [0, 1, 4])
    assert found == [Link(0, 3, 0, 3), Link(4, 7, 4, 6), Link(8, 11, 10, 12)]
    assert links("a", ["▁a"], "b", ["__de__", "▁b"], [None, 0])[-1][2:] == (0, 1)
    assert links("a", ["▁a"], "", [], []) == links("", [], "b", ["▁b"], [None]) == []


def test_links_through_a_pivot():
    first = [Link(0, 3, 0, 3), Link(4, 8, 4, 9)]
    second = [Link(0, 4, 4, 8), Link(5, 9, 0, 3), Link(10, 11, 20, 30)]
    assert through(first, second) == [Link(0, 4, 4, 9), Link(5, 9, 0, 3)]


def test_without_an_alignment_places_are_in_proportion():
    unit = marked("aaaa bbbb cccc dddd", (10, 14, "<b>", "</b>"))
    assert place(unit, "eeee ffff gggg hhhh") == "eeee ffff <b>gggg</b> hhhh"
    assert by_place("", "a b") == [Link(0, 1, 0, 1), Link(2, 3, 0, 1)]


def test_the_time_of_following_links_grows_with_the_length_of_a_line():
    def followed(line: str) -> None:
        straight = [Link(at, at + 2, at, at + 2) for at in range(0, len(line), 3)]
        swapped = [Link(*one[:2], *other[:2]) for one, other in zip(straight, reversed(straight), strict=True)]
        assert through(swapped, swapped) == straight

    assert_linear(followed, "ab ", 2_000)


@pytest.mark.parametrize("kind", ["pairs", "nested", "copied", "lost"])
def test_the_time_of_placing_grows_with_the_number_of_spans(kind):
    def placed(line: str) -> None:
        ends = [(found.start(), len(line) if kind == "nested" else found.end()) for found in re.finditer("ab", line)]
        text = None if kind in ("pairs", "nested") else ""
        unit = marked(line, *((start, end, f"<{start}>", f"</{start}>", text) for start, end in ends))
        output = line.replace("ab", "x") if kind == "lost" else line
        place(unit, output, [Link(start, start + 1, start, start + 2) for start, _ in ends])

    assert_linear(placed, "ab ", 1_000)
