"""What was not escaped cannot get into a page."""

from nmt.reports.html import details, element, page, section, table, text, variables


def test_text_and_attributes_are_escaped():
    assert text('<b> & "') == "&lt;b&gt; &amp; &quot;"
    assert element("p", text("a<b"), title='"<>') == '<p title="&quot;&lt;&gt;">a&lt;b</p>'


def test_attributes_by_their_names():
    made = element("input", class_="x", data_end="1", checked=True, disabled=False, id=None, name="n")
    assert made == '<input class="x" data-end="1" checked name="n">'


def test_variables_of_a_style():
    assert element("div", style=variables(heads=9, shape="1.5")) == '<div style="--heads: 9; --shape: 1.5"></div>'


def test_a_section_without_content_is_left_out():
    assert section("Data", text("")) == ""
    assert section("Data", text("x")) == "<section><h2>Data</h2>x</section>"


def test_a_table_marks_its_columns_of_numbers(parsed):
    read = parsed(table(["file", "lines"], [[text("a"), text("1,000")]], numbers={1}))
    assert [len(read.having(tag, "number")) for tag in ("th", "td")] == [1, 1]
    assert not parsed(table([], [[text("a")]])).having("thead")


def test_a_page_is_whole(parsed):
    made = page("a <title>", details("more", text("hidden")), styles=["charts.css"], scripts=["charts.js"])
    assert made.startswith('<!doctype html>\n<html lang="en">')
    read = parsed(made)
    assert "a <title>" in read.text
    assert len(read.having("style")) == 2
    assert "pointermove" in read.scripts[-1]
