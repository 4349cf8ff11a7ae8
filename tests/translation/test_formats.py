"""Translations as lines of output, in each form."""

import json

import pytest

from nmt.translation.formats import formatted, formatted_score
from nmt.translation.results import BLANK, TranslatedText, Translation
from nmt.translation.target_scorer import ScoredTarget

FOUND = Translation(
    "the cat",
    (
        TranslatedText("die Kat\tze", ("▁die", "▁Kat", "ze"), -1.5, -0.75, None, (-0.5,) * 4, (0, 1, 2)),
        TranslatedText("Katze ||| x", ("▁Katze", "▁|||", "▁x"), -2.0, -1.25, None, (-0.5,) * 4, (1, None, 0)),
    ),
    source_pieces=("▁the", "▁c", "at"),
)
EMPTY = Translation("", (BLANK,))


def test_text_has_as_many_lines_as_were_asked_for():
    assert formatted(FOUND, 7, 3, "text") == ["die Kat\tze", "Katze ||| x", ""]
    assert formatted(FOUND, 7, 1, "text", alignment=True) == ["die Kat\tze ||| 0-0 1-1 1-2"]
    assert formatted(EMPTY, 7, 2, "text", alignment=True) == [" ||| "] * 2


def test_tsv_has_line_rank_score_and_text():
    assert formatted(FOUND, 7, 3, "tsv") == ["7\t1\t-0.750000\tdie Kat ze", "7\t2\t-1.250000\tKatze ||| x"]
    assert formatted(FOUND, 7, 1, "tsv", alignment=True)[0].split("\t")[4] == "0-0 1-1 1-2"
    assert formatted(EMPTY, 7, 2, "tsv") == ["7\t1\t0.000000\t"]


def test_moses_counts_from_0_and_keeps_its_separator_for_itself():
    lines = formatted(FOUND, 7, 3, "moses", alignment=True)
    assert lines[1] == "6 ||| Katze | | | x ||| logp= -2.000000 pieces= 3 ||| -1.250000 ||| 0-2 1-0"
    assert [len(line.split(" ||| ")) for line in lines] == [5, 5]
    assert formatted(EMPTY, 7, 2, "moses") == ["6 |||  ||| logp= 0.000000 pieces= 0 ||| 0.000000"]


def test_pharaoh_is_parallel_to_the_text():
    assert formatted(FOUND, 7, 3, "pharaoh") == ["0-0 1-1 1-2", "0-2 1-0", ""]


def test_jsonl_is_one_object_for_a_line():
    [line] = formatted(FOUND, 7, 2, "jsonl", alignment=True)
    assert json.loads(line)["candidates"][1]["alignment"] == [1, None, 0]


def test_given_targets_are_aligned_too():
    scored = ScoredTarget(
        "die Katze", ("▁die", "▁Kat", "ze"), -2.0, -1.0, alignment=(0, 2, 1),
        source="the cat", source_pieces=("▁the", "▁c", "at"),
    )  # fmt: skip
    assert formatted_score(scored, 1, "text") == ["-1.0\t-2.0\t0-0 1-1"]
    assert formatted_score(scored, 1, "pharaoh") == ["0-0 1-1"]
    too_long = ScoredTarget("b", ("▁b",), -float("inf"), -float("inf"), source="a", source_pieces=("▁a",))
    assert formatted_score(too_long, 1, "pharaoh") == [""]


def test_a_candidate_longer_than_the_models_positions_has_no_alignment_and_its_infinities_are_null():
    """Forced decoding cannot score it; the guard may have joined it from sentences."""
    endless = float("-inf")
    text = TranslatedText("Die Katze", ("▁Die", "▁Katze"), endless, endless, None, (endless,) * 3, None)
    translation = Translation("the cat", (text,), source_pieces=("▁the", "▁cat"))
    assert formatted(translation, 1, 1, "pharaoh") == [""]
    assert formatted(translation, 1, 1, "text", alignment=True) == ["Die Katze ||| "]
    [line] = formatted(translation, 1, 1, "jsonl")
    [candidate] = json.loads(line, parse_constant=pytest.fail)["candidates"]
    assert (candidate["score"], candidate["log_probability"]) == (None, None)
