"""The page of ``nmt inspect --out``."""

import re

from nmt.lineage.comparing import Lineage
from nmt.record import Record
from nmt.reports.lineage_page import lineage_page

EVIL = "</dd><script>alert(1)</script>&amp;"
URL = "https://example.org/corpus.tgz"


def link(kind, path, facts, *rest) -> Lineage:
    return Lineage(Record(kind=kind, path=path, facts=facts), path, *rest)


ARCHIVE = link("archive", "corpus.tgz", {"url": URL, "bytes": 1_234_567}, "not here")
VOCABULARY = link("vocabulary", "data/x", {}, "changed", "the sha256 of data/x/vocab.model is a, not b")
DATA = link("data set", "data/x", {"train pairs": 29_000}, "unchanged", "", (VOCABULARY, ARCHIVE))
MODEL = link("checkpoint", "runs/x/last", {"update": 60}, "unchanged", "", (DATA,))
CHAIN = link("score", "score.json", {"BLEU of out.de": 27.3}, "not checked", "", (MODEL,))


def test_every_link_and_fact_is_on_the_page(parsed):
    page = parsed(lineage_page(CHAIN))
    assert len(page.having("li")) == 5 + 1  # one change
    for link in CHAIN.all():
        assert f"{link.kind}: {link.name}" in page.text
    for fact in ("BLEU of out.de", "27.3", "60", "29,000", "1,234,567", URL):
        assert fact in page.text


def test_what_a_link_was_made_from_lies_within_it(parsed):
    content = lineage_page(CHAIN)
    for outer, inner in ((CHAIN, MODEL), (MODEL, DATA), (DATA, ARCHIVE)):
        begin = content.index(f"{outer.kind}: {outer.name} ")
        between = content[begin : content.index(f"{inner.kind}: {inner.name} ")]
        assert between.count("<ol") - between.count("</ol") >= 1


def test_states_are_counted_and_told_by_more_than_colour(parsed):
    page = parsed(lineage_page(CHAIN))
    assert re.sub(r"\s+", " ", page.text).count("✓ unchanged") == 2 + 1  # and the heading of their number
    assert "✗ changed\n1\n" in page.text
    assert page.text.count("the sha256 of data/x/vocab.model is a, not b") == 1
    assert "Changes" not in parsed(lineage_page(ARCHIVE)).text


def test_nothing_breaks_out_of_the_page(parsed):
    evil = link("model", EVIL, {EVIL: EVIL}, "changed", EVIL, (link("file", EVIL, {}),))
    content = lineage_page(evil)
    assert "<script" not in content
    assert EVIL in parsed(content).text


def test_the_page_loads_nothing_and_knows_the_dark():
    content = lineage_page(CHAIN).replace(URL, "")
    assert not re.search(r"http|url\(|@import|\bsrc=|\bhref=", content)
    assert 'name="viewport"' in content
    assert content.count("prefers-color-scheme: dark") == 2
