"""Tags and entities of HTML and XML."""

import pytest

from nmt.corpora.filters.markup import has_markup


@pytest.mark.parametrize(
    "line",
    ["a<br>b", "a<br/>", "<b>fett</b>", "</p>", "<br />", '<a href="x">y</a>', "<A HREF = 'x'>", "<o:p>", "<!-- x",
     "<!doctype html>", "<?xml version='1.0'?>", "<![CDATA[x", "R&amp;D", "a&nbsp;b", "&#39;", "&#x1F600;",
     "caf&eacute;",
     "<data>", "<img src=a alt=b>"],
)  # fmt: skip
def test_markup_is_found_on_both_sides(line):
    assert has_markup((line, "a"))
    assert has_markup(("a", line))


@pytest.mark.parametrize(
    "line",
    ["I <3 you", "a < b and c > d", "x<y and z>w", "R&D", "AT&T; x", "Q&A: was?", "a && b;", "<< so >>, he said",
     "<https://example.org/>", "<me@example.org>", "5 > 4", "&unknown;", "& amp;", "1<2", "犬 < 猫", "->", "<-"],
)  # fmt: skip
def test_other_text_with_the_same_signs_passes(line):
    assert not has_markup((line, "a"))
