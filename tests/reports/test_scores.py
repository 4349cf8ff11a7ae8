"""A score sheet as text and as a record."""

from nmt.evaluation.score_sheet import ScoreSheet
from nmt.evaluation.significance import SystemScore
from nmt.reports.scores import sheet_record, sheet_text


def sheet(*names: str) -> ScoreSheet:
    systems = {
        name: [
            SystemScore("BLEU", 27.3 + number, 27.2, 0.61, 0.001 if number else None, "b"),
            SystemScore("TER", 50.0, 50.1, 1.0, 0.3 if number else None, "t"),
        ]
        for number, name in enumerate(names)
    }
    return ScoreSheet("ref.de", 3_003, systems, {"BLEU": "tok:13a|x:1", "TER": "tok:y"}, "12345", 1_000)


def test_text_is_aligned_and_marks_significant_differences():
    lines = sheet_text(sheet("base.de", "a much\nlonger name.de")).splitlines()
    assert lines == [
        "references: ref.de, 3,003 lines",
        "",
        "system                         BLEU           TER",
        "base.de                27.30 ± 0.61  50.00 ± 1.00",
        "a much longer name.de  28.30 ± 0.61  50.00 ± 1.00",
        "",
        "p of the difference from base.de, by paired bootstrap; * below 0.05:",
        "system                    BLEU     TER",
        "a much longer name.de  0.0010*  0.3000",
        "",
        "± half of the 95 % confidence interval, by bootstrap resampling (1,000 samples, seed 12345)",
        "",
        "BLEU  tok:13a|x:1",
        "TER   tok:y",
    ]


def test_a_single_system_is_compared_with_none():
    text = sheet_text(sheet("base.de"))
    assert "27.30" in text
    assert "p of the difference" not in text


def test_the_record_lists_the_systems_with_their_scores():
    record = sheet_record(sheet("base.de", "new.de"))
    assert list(record) == ["references", "lines", "systems", "signatures", "seed", "samples"]
    assert [system["system"] for system in record["systems"]] == ["base.de", "new.de"]
    ter = {"name": "TER", "value": 50.0, "mean": 50.1, "interval": 1.0, "p_bootstrap": 0.3}
    assert record["systems"][1]["scores"][1] == ter
