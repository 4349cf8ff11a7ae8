"""What stays of a text: it is covered by stand-ins, and found in translations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.spans.kept import Covered, copies
from nmt.spans.span import Span


def kept(start: int, end: int) -> Span:
    return Span(start, end, text="")


@pytest.mark.parametrize(
    ("text", "output", "found"),
    [
        ("{n}", "{n}{n} {n", [0, 3]),
        ("in", "Inhalt in Wien, in.", [7, 16]),
        ("a-", "a-b ba- a-", [0, 8]),
        ("-", "e-mail", [1]),
        ("vi", "việt vi", [5]),
        ("cafe\u0301", "cafe\u0301s cafe\u0301", [7]),
        ("cafe", "cafe\u0301", []),
        ("x", "在x中", [1]),  # nothing stands between the words of such scripts
        ("", "a", []),
    ],
)
def test_copies_are_no_parts_of_words(text, output, found):
    assert copies(text, output) == [(start, start + len(text)) for start in found]


def test_each_part_that_stays_becomes_one_character_that_the_text_lacks():
    spans = [Span(0, 12, "<b>", "</b>"), kept(4, 9), Span(9, 9, "<br>"), kept(13, 16), kept(15, 17), kept(16, 17)]
    covered = Covered.of("run  x y  is {0} \u2801", spans)
    assert covered.text == "run  \u2802  is \u2803 \u2801"
    assert covered.kept == {"x y": 1, "{0}": 1}
    assert covered.part("is \u2801") is None
    assert covered.part(" \u2803").kept == {"{0}": 1}


@given(st.text("ab {}\u2801\u2802"), st.lists(st.integers(0, 20), max_size=8))
def test_nothing_is_lost_by_covering(text, places):
    places = sorted({min(place, len(text)) for place in places})
    covered = Covered.of(text, [kept(*pair) for pair in zip(places[::2], places[1::2], strict=False)])
    assert covered.uncovered(covered.text) == text
    assert covered.is_kept(text, text)
    for span in covered.spans_in(text):
        assert text[span.start : span.end] in covered.kept


def test_of_addresses_that_begin_alike_the_longer_one_stays_whole():
    text = "x.org/ab, x.org/"
    covered = Covered.of(text, [kept(0, 8), kept(10, 16)])
    assert Covered.of(text, covered.spans_in(text)).kept == covered.kept
    assert not covered.is_kept(text, "x.org/ab")


@pytest.mark.parametrize(
    ("seen", "output", "is_kept"),
    [
        ("a {n} b {n}", "{n}, {n}", True),
        ("a {n} b {n}", "{n} {m}", False),
        ("a b {n}", "{n}", True),  # the first was taken out already
    ],
)
def test_a_translation_has_what_the_model_saw_of_it(seen, output, is_kept):
    assert Covered.of("a {n} b {n}", [kept(2, 5), kept(8, 11)]).is_kept(seen, output) == is_kept
