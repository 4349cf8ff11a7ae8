"""Tab-separated files: which column is which, scores, and lines that are too short."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt.corpora.formats import CorpusFile, ParallelText, ReadPair
from nmt.corpora.tab_separated import layout_hint, read
from nmt.errors import DataError
from nmt.text.lines import InvalidUtf8Error


@pytest.fixture
def rows(tmp_path):
    """Read lines as a tab-separated file."""

    def read_rows(*lines, invalid="error", **layout):
        path = tmp_path / "corpus.tsv"
        path.write_bytes(b"".join(line.encode() if isinstance(line, str) else line for line in lines))
        return list(read(ParallelText([CorpusFile(path, str(path))], "en", "de", invalid=invalid, **layout)))

    return read_rows


def test_source_and_target_are_the_first_two_columns(rows):
    found = rows("a dog\tein Hund\n", "a cat\teine Katze\tmore\tand more\n", "\t\n", 'a "b\t"c\r\n')
    assert found == [("a dog", "ein Hund", None), ("a cat", "eine Katze", None), ("", "", None), ('a "b', '"c', None)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (("de", "en"), ("2", "1")),
        (("-", "en", "score", "de"), ("2", "4")),
        (("url", "source", "target"), ("2", "3")),
        (("en-GB", "-", "DE_at"), ("1", "3")),
        (("en-GB", "en", "de"), ("2", "3")),
        (("x", "x", "en", "de"), ("3", "4")),
    ],
)
def test_columns_are_named_in_order(rows, columns, expected):
    assert rows("1\t2\t3\t4\n", columns=columns) == [ReadPair(*expected)]


def test_a_header_names_the_columns_and_is_no_pair(rows):
    assert rows("id\tde\t en \n", "7\tein Hund\ta dog\n", header=True) == [("a dog", "ein Hund", None)]
    assert rows(" score\tde\t en \n", "7\tein Hund\ta dog\n", header=True, scored=True) == [("a dog", "ein Hund", 7.0)]
    assert rows("German\tEnglish\n", "ein Hund\ta dog\n", header=True) == [("a dog", "ein Hund", None)]
    assert rows("one\ttwo\n", "a dog\tein Hund\n", header=True, columns=("en", "de")) == [("a dog", "ein Hund", None)]
    assert rows(header=True) == rows("en\tde\n", header=True) == rows() == []
    assert rows("en\tde\n") == [("en", "de", None)]  # a header is not guessed


def test_scores_are_read_where_they_are_needed(rows):
    columns = ("en", "de", "score")
    assert [pair.score for pair in rows("a\tb\t0.5\n", "a\tb\t-1e3\n", columns=columns, scored=True)] == [0.5, -1000.0]
    assert rows("a\tb\n", "a\tb\thigh\n", columns=("en", "de")) == [("a", "b", None)] * 2


@pytest.mark.parametrize("score", ["", "high", "nan", "0,5"])
def test_a_score_that_is_no_number_is_named(rows, score):
    with pytest.raises(DataError, match=rf"corpus\.tsv, line 2: the score '{score}' is not a number"):
        rows("a\tb\t1\n", *[f"a\tb\t{score}\n"] * 2, columns=("en", "de", "score"), scored=True)


@pytest.mark.parametrize(
    ("line", "layout", "message"),
    [
        ("a\n", {}, r"line 2: has 1 column, but at least 2 are needed\. Columns are separated by tabs\."),
        ("\n", {}, "line 2: has 1 column"),
        ("a\tb\n", {"columns": ("en", "-", "de")}, "line 2: has 2 columns, but at least 3"),
        ("a\tb\n", {"columns": ("en", "de", "-", "score"), "scored": True}, "line 2: has 2 columns, but at least 4"),
    ],
)
def test_a_line_with_too_few_columns_is_named(rows, line, layout, message):
    with pytest.raises(DataError, match=rf"corpus\.tsv, {message}"):
        rows("1\t2\t3\t4\n", line, line, **layout)
    assert rows(line, "1\t2\t3\t4\n", "1\t2\t3\t4\n", **layout)[0] is None


def test_text_of_another_form_is_an_error_at_its_beginning(tmp_path):
    (tmp_path / "wrong.tsv").write_text("no tab\n" * 2_000)
    file = CorpusFile(tmp_path / "wrong.tsv", "wrong.tsv")
    pairs = read(ParallelText([file], "en", "de"))
    with pytest.raises(DataError, match="line 1: has 1 column"):
        for _ in range(1_000):
            next(pairs)


def test_a_header_is_no_line_among_those_of_which_most_are_unusable(rows):
    usual = ["en\tde\n", "a\tb\n", "no tab\n"]
    assert rows(*usual, header=True) == [("a", "b", None), None]
    with pytest.raises(DataError, match="line 3: has 1 column"):
        rows(*usual, "no tab\n", header=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("fr", "de"), r"none of the columns 'fr', 'de' hold en; exactly one must\..*--columns en,de"),
        (("en", "en"), "2 of the columns 'en', 'en' hold en"),
        (("en", "de-AT", "de-CH"), "2 of the columns 'en', 'de-AT', 'de-CH' hold de"),
        (("source", "source", "de"), "2 of the columns"),
        (("x",) * 50, r"'x', \.\.\. hold en"),
    ],
)
@pytest.mark.parametrize("is_header", [False, True])
def test_each_language_needs_one_column(rows, columns, message, is_header):
    layout = {"header": True} if is_header else {"columns": columns}
    with pytest.raises(DataError, match=message):
        rows("\t".join(columns) + "\n", "a\tb\tc\n", **layout)


def test_one_column_does_not_hold_both_languages(tmp_path):
    path = tmp_path / "corpus.tsv"
    path.write_text("a\tb\n")
    with pytest.raises(DataError, match="the column 'en' fits both languages"):
        list(read(ParallelText([CorpusFile(path, "corpus.tsv")], "en-GB", "en-US", columns=("en", "-"))))


@pytest.mark.parametrize(("columns", "count"), [(("en", "de"), "no"), (("en", "de", "score", "score"), "2")])
def test_a_minimum_score_needs_one_column_of_scores(rows, columns, count):
    with pytest.raises(DataError, match=rf"corpus\.tsv: {count} columns are named score.*--columns en,de,score"):
        rows("a\tb\t1\t2\n", columns=columns, scored=True)


def test_bytes_that_are_no_text_are_named_or_replaced(rows):
    with pytest.raises(InvalidUtf8Error, match=r"corpus\.tsv, line 1: byte 3 of the line"):
        rows(b"a\t\xff\n")
    assert rows(b"a\t\xff\n", invalid="replace") == [("a", "\ufffd", None)]


CELL = st.text(st.characters(exclude_characters="\t\n\r", exclude_categories=["Cs"]))


@given(pairs=st.lists(st.tuples(CELL, CELL)), is_swapped=st.booleans(), ending=st.sampled_from(["\n", "\r\n"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_pairs_survive(rows, pairs, is_swapped, ending):
    pairs = [(f".{source}", f".{target}") for source, target in pairs]  # a byte order mark at the beginning is left out
    lines = [(f"{target}\t{source}" if is_swapped else f"{source}\t{target}") + ending for source, target in pairs]
    found = rows(*lines, columns=("de", "en") if is_swapped else None)
    assert found == [(source, target, None) for source, target in pairs]


@pytest.mark.parametrize(
    ("first", "layout", "hinted"),
    [
        ("source\ttarget", {}, True),
        ("Source \tTARGET\tscore", {}, True),
        ("en\tde", {}, True),
        ("de_AT\ten-GB", {}, True),
        ("src\ttrg", {}, True),
        ("English\tGerman", {}, True),
        ("0.5\ten\tde", {"columns": ("score", "en", "de")}, True),
        ("source\ttarget", {"header": True}, False),
        ("source\tQuelle", {}, False),
        ("a dog\tein Hund", {}, False),
        ("text\ttext", {}, False),
        ("fr\tes", {}, False),
        ("source", {}, False),
        ("", {}, False),
    ],
)
def test_a_first_line_that_looks_like_a_header_gets_a_hint(tmp_path, first, layout, hinted):
    path = tmp_path / "corpus.tsv"
    path.write_bytes(f"{first}\n\xff broken\n".encode("latin-1") if first else b"")
    hint = layout_hint(ParallelText([CorpusFile(path, "corpus.tsv")], "en", "de", **layout))
    assert (hint is not None) == hinted
    if hint is not None:
        assert "corpus.tsv: its first line, " in hint
        assert "add --header (in a recipe: header: true)." in hint


@pytest.mark.parametrize("columns", [None, ["source", "target"], ["en", "de"], ["-", "-", "en", "de", "score"]])
def test_columns_that_nobody_named_are_told_of(tmp_path, columns):
    """Crawled text has the addresses of both pages in front of it."""
    path = tmp_path / "crawl.tsv"
    path.write_text("http://a\thttp://b\tone\teins\t0.9\n")
    hint = layout_hint(ParallelText([CorpusFile(path, "crawl.tsv")], "en", "de", columns=columns))
    if columns in (None, ["source", "target"]):
        assert "has 5 columns, of which the first two are read as source and target" in hint
        assert "--columns -,-,en,de" in hint
    else:
        assert hint is None
