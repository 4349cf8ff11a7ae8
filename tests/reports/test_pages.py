"""A page is one file of the shared look, escapes all text, and replaces its own kind alone."""

import pytest
from markupsafe import Markup

from nmt.errors import OutputError
from nmt.reports.pages import Page, environment
from nmt.table import Table

PAGE = Page("examples/sweep", "table.html", option="--page")
EVIL = "</td><script>alert(1)</script>&amp;\"'"


def test_a_page_is_whole(parsed):
    made = PAGE.html("a <title>", table=Table("", ["row", "BLEU"], [["base", "27.3"]], note="A note."))
    assert made.startswith('<!doctype html>\n<html lang="en">')
    page = parsed(made)
    assert "a <title>" in page.text and "A note." in page.text
    assert "Written by examples/sweep, version" in page.text
    assert page.having("meta")[1]["content"].startswith("examples/sweep ")
    assert len(page.having("style")) == 1
    assert not page.scripts


def test_a_table_marks_its_columns_of_numbers(parsed):
    page = parsed(PAGE.html("t", table=Table("", ["file", "lines"], [["a", "1,000"]])))
    assert [len(page.having(tag, "number")) for tag in ("th", "td")] == [1, 1]
    assert not parsed(PAGE.html("t", table=Table("", [], [["a"]]))).having("thead")


def test_text_is_escaped_and_markup_is_not(parsed):
    made = PAGE.html(EVIL, table=Table("", [EVIL, "b"], [[EVIL, Markup("<code>{}</code>").format(EVIL)]], note=EVIL))
    assert "<script" not in made
    assert parsed(made).text.count(EVIL) == 6
    assert len(parsed(made).having("code")) == 1


def test_json_in_a_page_cannot_end_its_script():
    made = environment().from_string("<script>{{ value|tojson }}</script>").render(value=[EVIL, "▁ü"])
    assert made.count("<") == 2
    assert "&" not in made


def test_only_a_page_of_the_same_writer_is_replaced(tmp_path):
    path, content = tmp_path / "page.html", PAGE.html("first", table=Table("", []))
    PAGE.write(path, content)
    PAGE.write(path, content.replace("first", "second"))
    assert "second" in path.read_text("utf-8")
    other = Page("nmt report", "report.html")
    with pytest.raises(OutputError, match=r"not a page of nmt report that nmt wrote.*name another file with --out"):
        other.check(path)
    path.write_text("x" * 1_000 + content)
    with pytest.raises(OutputError, match="name another file with --page"):
        PAGE.write(path, content)


def test_text_that_no_encoding_can_write_is_replaced(tmp_path):
    PAGE.write(tmp_path / "page.html", PAGE.html("a\ud800b", table=Table("", [])))
    assert "<h1>a?b</h1>" in (tmp_path / "page.html").read_text("utf-8")
