"""The page and the text of a comparison show every figure, and no text can break out of them."""

import json
import re
from dataclasses import replace

import pytest

from nmt.evaluation.differences.finding import find_differences
from nmt.evaluation.differences.parallel_texts import parallel_texts
from nmt.reports.comparison_page import comparison_page
from nmt.reports.comparison_text import ComparedFiles, comparison_json, comparison_text, tables, verdict

EVIL = "</script><script>alert(1)</script><b>&amp; \"'| end"
SOURCE = ["The lamp is old.", "In 1998 Anna came.", "Nobody heard the bell.", "We go."]
REFERENCE = ["Die Lampe ist alt.", "Im Jahr 1998 kam Anna.", "Niemand hörte die Glocke.", "Wir gehen."]
A = ["Die Lampe ist neu.", "Im Jahr 1998 kam Anna.", "Niemand hörte the bell.", "Wir gehen."]
B = ["Die Lampe ist alt.", "1989 kam Anne an.", "Niemand hörte die Klingel.", "Wir gehen."]
FILES = ComparedFiles(("base.de", "out/new.de"), "test.de", "test.en", None)


def differences(a=A, b=B, reference=REFERENCE, source=SOURCE, **options):
    return find_differences(parallel_texts((a, b), reference, source, target_lang="de"), **options)


@pytest.fixture(scope="module")
def found():
    return differences()


def bars(page) -> list[str]:
    return [bar["style"] for bar in page.having("i")]


def test_every_figure_is_on_the_page(found, parsed):
    page = parsed(comparison_page(found, FILES))
    assert "Comparison of translations: base.de and new.de" in page.text
    for table in tables(found):
        assert table.title in page.text
        assert all(cell in page.text for row in table.rows for cell in row)
    for metric in found.totals.metrics.records:
        assert metric["signature"] in page.text
        assert all(f"{value:.2f}" in page.text for value in metric["values"])
    for gram in (*found.ngrams["a"].rows, *found.ngrams["b"].rows):
        assert all(cell in page.text for cell in gram)
    assert len(page.having("article")) == len(found.sentences.a) + len(found.sentences.b) == 3


def test_bars_go_to_the_side_of_the_better_system(found, parsed):
    page = parsed(comparison_page(found, FILES))
    gains = [gain for table in tables(found) for gain in table.gains]
    sides = [bar["class"] for bar in page.having("i")]
    assert sides == ["a" if gain < 0 else "b" for gain in gains if gain]
    for side, style in zip(sides, bars(page), strict=True):
        begin, size = map(float, re.fullmatch(r"--begin: ([\d.]+)%; --size: ([\d.]+)%", style).groups())
        assert (begin + size, begin)[side == "b"] == pytest.approx(50, abs=0.11)
    assert any("--size: 50.0%" in style for style in bars(page))


def test_copied_words_are_a_loss_and_kept_numbers_a_gain(found):
    (table,) = [table for table in tables(found) if table.title.startswith("Numbers")]
    gains = {row[0]: gain for row, gain in zip(table.rows, table.gains, strict=True)}
    assert gains["numbers of the reference"] == -1
    assert gains["names"] == -1
    assert gains["copied source words"] > 0  # A copies two


def test_differences_are_marked_by_more_than_colour(found, parsed):
    page = parsed(comparison_page(found, FILES))
    assert {mark["class"] for tag in ("del", "ins") for mark in page.having(tag)} == {"right", "wrong"}
    content = comparison_page(found, FILES)
    assert '<del class="wrong">neu</del>' in content
    assert '<ins class="right">alt</ins>' in content
    styles = content[: content.index("</head>")]
    assert ".right { text-decoration-line: underline; text-decoration-style: solid" in styles
    assert "text-decoration-style: dotted" in styles
    assert "prefers-color-scheme: dark" in styles


def test_nothing_breaks_out_of_the_page(parsed):
    evil = [f"{EVIL} {line}" for line in REFERENCE]
    found = differences(evil, [f"x{line}" for line in evil], evil[::-1], [EVIL] * 4, counted_in=EVIL)
    content = comparison_page(found, ComparedFiles((EVIL, EVIL), EVIL, EVIL, EVIL))
    page = parsed(content)
    assert "<script" not in content
    assert f"{EVIL} Wir gehen." in page.text
    assert not re.search(r"http|url\(|@import|\bsrc=|\bhref=", content)
    assert 'name="viewport"' in content
    assert page.having("article")


def test_a_page_of_equal_systems_is_short(parsed):
    found = differences(A, A)
    page = parsed(comparison_page(found, FILES))
    assert "The translations are equal." in page.text
    assert "Sentences that changed most" not in page.text
    assert "N-grams that" not in page.text
    assert not page.having("i")


def test_the_text_shows_all(found):
    text = comparison_text(found, FILES)
    assert text.startswith(
        "A: base.de\nB: out/new.de\n3 of 4 lines differ. By chrF, A is better in 1 of them, and B in 2."
    )
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == [
        "Totals",
        "BLEU by length of the reference",
        "Words by frequency",
        "Numbers and names kept, words copied",
        "Length of the translation beside the reference",
        "N-grams that A gets right more often",
        "N-grams that B gets right more often",
        "Sentences that A translates better",
        "Sentences that B translates better",
    ]
    assert "  source     The lamp is old.\n  reference  Die Lampe ist alt.\n" in text
    assert "  A          Die Lampe ist [-neu-].\n  B          Die Lampe ist {+alt+}.\n" in text
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(line) for line in block.splitlines()}) == 1


def test_marks_of_neighbours_are_one_mark():
    found = differences(["a x alt."] * 4, ["a q."] * 4, ["a alt."] * 4, None)
    text = comparison_text(found, FILES)
    assert "  A          a [-x alt-].\n  B          a {+q+}.\n" in text
    assert "source" not in text


def test_bars_in_ngrams_stay_in_their_cell():
    text = comparison_text(differences(["a | b"] * 4, ["c"] * 4, ["a | b"] * 4, None), FILES)
    assert r"| a \| b | 4 | 0 |" in re.sub(" +", " ", text)


def test_the_json_holds_all(found):
    record = json.loads(comparison_json(found, FILES))
    assert record["systems"] == ["base.de", "out/new.de"]
    assert (record["reference"], record["source"], record["data"]) == ("test.de", "test.en", None)
    assert set(record) == {
        *("systems", "reference", "source", "data", "totals", "by_length", "by_frequency", "copying"),
        *("length_ratios", "ngrams", "sentences"),
    }
    metric = found.totals.metrics.records[0]
    assert record["totals"]["metrics"][0] == metric | {name: list(metric[name]) for name in ("values", "intervals")}
    assert record["totals"]["lines"] == 4
    assert record["by_length"][0]["bucket"] == {"low": 1, "high": 10}
    assert list(record["by_frequency"][0]) == ["bucket", "reference_words", "systems"]
    assert record["copying"][0]["name"] == "numbers of the reference"
    assert list(record["ngrams"]) == ["a", "b"]
    assert list(record["ngrams"]["b"][0]) == ["tokens", "right", "in_references"]
    assert record["sentences"]["a"][0]["hypotheses"] == [A[1], B[1]]


def test_the_verdict_names_the_better_system_only_if_it_is_significant(found):
    def with_bleu(a: float, b: float, p: float):
        bleu = found.totals.metrics.records[0] | {"values": (a, b), "p_value": p}
        return replace(found, totals=replace(found.totals, metrics=replace(found.totals.metrics, records=[bleu])))

    assert verdict(with_bleu(30, 31.5, 0.01)) == "B is better than A by 1.50 BLEU (p = 0.0100)."
    assert verdict(with_bleu(31.5, 30, 0.049)) == "A is better than B by 1.50 BLEU (p = 0.0490)."
    assert verdict(with_bleu(30, 31.5, 0.05)) == "The difference of 1.50 BLEU is not significant (p = 0.0500)."
    assert verdict(differences(A, A)) == "The translations are equal."
