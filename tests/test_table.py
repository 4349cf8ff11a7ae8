"""One table in every form."""

from nmt.table import Table

TABLE = Table("Corpora", ["corpus", "pairs|share"], [["a|b", "1,000"], ["a longer name", "-"]], note="A note.")


def test_markdown_has_title_and_note_and_keeps_bars_in_their_cells():
    assert str(TABLE).splitlines() == [
        "## Corpora",
        "",
        r"| corpus        |   pairs\|share |",
        "|:--------------|---------------:|",
        r"| a\|b          |          1,000 |",
        "| a longer name |              - |",
        "",
        "A note.",
    ]
    assert str(Table("", ["k"], [["v"]])).startswith("| k")


def test_plain_text_is_aligned_and_without_blanks_at_the_end():
    assert TABLE.plain().splitlines() == [
        "corpus           pairs|share",
        "a|b                    1,000",
        "a longer name              -",
    ]
    assert Table("", [], [["name", "x"], ["b", ""]], numbers=()).plain() == "name  x\nb"


def test_text_that_looks_like_a_number_stays_as_it_is():
    table = Table("", ["x", "y"], [["1e3", "1.0"], ["007", "1.50"]])
    assert [line.split() for line in table.plain().splitlines()] == [["x", "y"], ["1e3", "1.0"], ["007", "1.50"]]


def test_columns_of_numbers_are_chosen_or_all_but_the_first():
    assert [TABLE.is_number(column) for column in (0, 1)] == [False, True]
    assert [Table("", [], numbers={0}).is_number(column) for column in (0, 1)] == [True, False]


def test_a_table_without_rows_is_its_header():
    assert Table("", ["a", "b"]).plain().split() == ["a", "b"]
    assert Table("", ["a", "b"]).markdown().count("\n") == 1
