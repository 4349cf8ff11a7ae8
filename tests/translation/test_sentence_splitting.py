"""Which lines are translated sentence by sentence: those that a model was not trained for, and no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.config.data import LengthRatio, LineStatistics, PieceCounts, SideLines
from nmt.translation.sentence_splitting import LineSplitter, Part


def words(texts) -> list[int]:
    return [len(text.split()) for text in texts]


def statistics(*sentences: int, p99: int = 20, p999: int = 24) -> LineStatistics:
    """Of training lines with so many of 1, 2, 3 ... sentences."""
    side = SideLines(sentences=sentences, pieces=PieceCounts(p50=8, p90=14, p99=p99, p999=p999, max=60))
    ratio = LengthRatio(p1=0.6, p10=0.8, p50=1, p90=1.2, p99=1.6)
    return LineStatistics(max_pieces=64, source=side, target=side, target_per_source=ratio)


CAPTIONS = statistics(28_990, 2)
NEWS = statistics(88_000, 11_000, 900, 90)
WEB = statistics(3_500_000, 400_000, 30_000, 5_000, 200)


def parts(line: str, lines: LineStatistics | None = CAPTIONS, mode="auto", limit: int = 64, **options) -> list[Part]:
    return LineSplitter(mode, "en", lines, limit, words).parts(line, len(line.split()), **options)


def texts(*arguments, **options) -> list[str]:
    return [part.text for part in parts(*arguments, **options)]


def line_of(*lengths: int) -> str:
    """So many words per sentence."""
    return " ".join(" ".join(["Word"] * (length - 1) + ["end."]) for length in lengths)


@pytest.mark.parametrize(
    ("lines", "lengths", "count"),
    [
        # One sentence per training line: more are split however short they are; one never is, however long.
        (CAPTIONS, (3, 3, 3), 3),
        (CAPTIONS, (2, 2), 2),
        (CAPTIONS, (19,), 1),
        (CAPTIONS, (63,), 1),
        # Two sentences in a tenth of the lines: lines of two are left alone, long or not.
        (NEWS, (5, 5), 1),
        (NEWS, (15, 15), 1),
        (NEWS, (3, 3, 3), 3),
        # Unless nearly nothing in the training text was so long.
        (NEWS, (18, 18), 1),
        (NEWS, (18, 19), 2),
        # Three sentences are unusual, but 30,000 lines of them were learnt: only long ones are split.
        (WEB, (5, 5, 5), 1),
        (WEB, (7, 7, 7), 3),
        (WEB, (3, 3, 3, 3), 1),
        (WEB, (2, 2, 2, 2, 2), 5),
    ],
)
def test_lines_are_split_that_hold_more_than_the_training_lines(lines, lengths, count):
    assert len(parts(line_of(*lengths), lines)) == count


def test_a_model_whose_training_lines_are_unknown_translates_sentence_by_sentence():
    """So it is with every imported model: it would drop sentences."""
    assert len(parts(line_of(5, 5, 5), None)) == 3
    assert len(parts(line_of(5, 5, 5), None, whole=True)) == 1
    assert texts(line_of(5, 5, 5), None, limit=12) == [line_of(5), line_of(5), line_of(5)]


def test_always_and_never():
    assert texts("One. Two.", WEB, mode="always") == ["One.", "Two."]
    assert texts("One. Two.", None, mode="always") == ["One.", "Two."]
    assert texts(line_of(*[2] * 9), CAPTIONS, mode="never") == [line_of(*[2] * 9)]
    assert len(texts(line_of(*[6] * 9), CAPTIONS, mode="never", limit=20)) > 1


def test_what_is_copied_between_sentences_divides_a_line():
    for line in ("1. One end. 2. Two end.", "One end. (2) Two end.", "One end. – – Two end.", "One end. 5. Two end."):
        assert len(parts(line, NEWS)) == 2
        assert len(parts(line, NEWS, mode="never")) == len(parts(line, NEWS, whole=True)) == 1
    assert len(parts("1. One end. Two end. (3)", NEWS)) == 1


def test_what_begins_with_a_prefix_stays_whole():
    assert len(parts(line_of(3, 3, 3), whole=True)) == 1
    assert len(parts(line_of(3, 3, 3), whole=True, mode="always")) == 3


def test_white_space_between_sentences_is_kept():
    found = parts("  One man sleeps.  Two dogs\t run.\t\tThree cats\r play. \n A bird. ")
    assert found == [
        Part("One man sleeps."),
        Part("Two dogs\t run.", "  "),
        Part("Three cats\r play.", "\t\t"),
        Part("A bird.", "   "),
    ]


def test_a_sentence_that_is_longer_than_the_limit_is_cut_further():
    found = parts(f"{line_of(3)}  {line_of(12)} {line_of(2)}", limit=8)
    assert [len(part.text.split()) for part in found] == [3, 6, 6, 2]
    assert [part.before for part in found] == ["", "  ", " ", " "]


def test_blank_lines_are_left_alone():
    assert parts("") == [Part("")]
    assert parts(" \t", mode="always") == [Part(" \t")]


@given(
    st.text(st.sampled_from("aB.!? \t\u00a0。\r\u2028")),
    st.sampled_from(["auto", "always", "never"]),
    st.integers(1, 9),
)
def test_nothing_is_lost(line, mode, limit):
    found = parts(line, mode=mode, limit=limit)
    assert "".join("".join(part.text for part in found).split()) == "".join(line.split())
    assert found[0].before == ""
    assert all(not part.before.strip() and "\r" not in part.before for part in found)
    assert len(found) == 1 or all(length <= limit for length in words(part.text for part in found))
