"""A score sheet as text, Markdown and LaTeX, with names that hold what these languages take for their own."""

import re

import pytest

from nmt.evaluation.score_sheet import ScoreSheet
from nmt.evaluation.significance import SystemScore
from nmt.reports.scores import formatted_sheet, sheet_record


def sheet(*names: str) -> ScoreSheet:
    systems = {
        name: [
            SystemScore("BLEU", 27.3 + number, 27.2, 0.61, 0.001 if number else None, 0.04 if number else None, "b"),
            SystemScore("TER", 50.0, 50.1, 1.0, 0.3 if number else None, 0.01 if number else None, "t"),
        ]
        for number, name in enumerate(names)
    }
    return ScoreSheet("ref.de", 3_003, systems, {"BLEU": "tok:13a|x:1", "TER": "tok:y"}, "12345", 1_000, 10_000)


def test_text_is_aligned_and_marks_what_both_tests_find():
    lines = formatted_sheet(sheet("base.de", "a much longer name.de"), "text").splitlines()
    assert lines == [
        "references: ref.de, 3,003 lines",
        "",
        "system                         BLEU           TER",
        "base.de                27.30 ± 0.61  50.00 ± 1.00",
        "a much longer name.de  28.30 ± 0.61  50.00 ± 1.00",
        "",
        "p of the difference from base.de: paired bootstrap (1,000 samples) / approximate randomisation (10,000 "
        "trials); * both below 0.05:",
        "system                             BLEU              TER",
        "a much longer name.de  0.0010 / 0.0400*  0.3000 / 0.0100",
        "",
        "± half of the 95 % confidence interval, by bootstrap resampling (1,000 samples, seed 12345)",
        "",
        "BLEU  tok:13a|x:1",
        "TER   tok:y",
    ]


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_a_single_system_is_compared_with_none(form):
    text = formatted_sheet(sheet("base.de"), form)
    assert "27.30" in text
    assert "p of the difference" not in text


def test_markdown_shows_names_as_they_are():
    lines = formatted_sheet(sheet("a|b`c.de", "two\nlines.de"), "markdown").splitlines()
    assert r"| `a\|b'c.de`    | 27.30 ± 0.61 | 50.00 ± 1.00 |" in lines
    assert "| `two lines.de` | 28.30 ± 0.61 | 50.00 ± 1.00 |" in lines
    assert "- BLEU: `tok:13a|x:1`" in lines


def test_latex_escapes_what_it_would_take_for_commands():
    text = formatted_sheet(sheet("a_b&c%.de", "\\input{x}$^~#"), "latex")
    body = [" ".join(line.split()) for line in text.splitlines() if not line.startswith("%")]
    assert body[0] == r"\begin{tabular}{lrr}"
    assert body[-1] == r"\end{tabular}"
    assert r"a\_b\&c\%.de & 27.30 $\pm$ 0.61 & 50.00 $\pm$ 1.00 \\" in body
    name = r"\textbackslash{}input\{x\}\$\^{}\textasciitilde{}\#"
    assert [line for line in body if line.startswith(name)] == [
        rf"{name} & 28.30 $\pm$ 0.61 & 50.00 $\pm$ 1.00 \\",
        rf"{name} & 0.0010 / 0.0400* & 0.3000 / 0.0100 \\",
    ]
    assert not re.search(r"(?<!\\)%", "\n".join(body))


def test_the_record_lists_the_systems_with_their_scores():
    record = sheet_record(sheet("base.de", "new.de"))
    assert list(record) == ["references", "lines", "systems", "signatures", "seed", "samples", "trials"]
    assert [system["system"] for system in record["systems"]] == ["base.de", "new.de"]
    ter = {
        "name": "TER", "value": 50.0, "mean": 50.1, "interval": 1.0, "p_bootstrap": 0.3, "p_randomization": 0.01,
    }  # fmt: skip
    assert record["systems"][1]["scores"][1] == ter
