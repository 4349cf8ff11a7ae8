"""What ``nmt score`` takes from a test set, and its metrics in any order."""

import json

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.corpora import testsets


def test_the_language_of_a_test_set_is_the_target_of_its_pair(tmp_path, monkeypatch):
    found = testsets.SourceAndReferences(["He came."], [["他来了。"]])
    monkeypatch.setattr(testsets, "fetch_test_set", lambda *words, **options: found)
    (tmp_path / "hypothesis").write_text("他来了。\n", "utf-8")
    words = ["score", "--json", "--test-set", "wmt20", "--langpair", "en-zh", str(tmp_path / "hypothesis")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    [score] = json.loads(result.stdout)["systems"][0]["scores"]
    assert "tok:zh" in score["signature"]


def test_bleu_need_not_be_the_first_metric(tmp_path):
    for name in ("hypothesis", "ref.de"):
        (tmp_path / name).write_text("Das Haus ist alt.\n", "utf-8")
    words = ["score", "--json", "--metric", "chrf", "--metric", "bleu"]
    words += ["--reference", str(tmp_path / "ref.de"), str(tmp_path / "hypothesis")]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    scores = json.loads(result.stdout)["systems"][0]["scores"]
    assert [(score["name"], score["value"]) for score in scores] == [("chrF2", 100), ("BLEU", pytest.approx(100))]


def test_the_language_of_a_reference_is_the_target_of_the_pair_where_one_is_given(tmp_path):
    for name in ("hypothesis", "ref"):
        (tmp_path / name).write_text("他来了。\n", "utf-8")
    words = [
        "score",
        "--json",
        "--langpair",
        "en-zh",
        "--reference",
        str(tmp_path / "ref"),
        str(tmp_path / "hypothesis"),
    ]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    [score] = json.loads(result.stdout)["systems"][0]["scores"]
    assert "tok:zh" in score["signature"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--reference - hypothesis", ""),
        ("--reference ref.de --source - hypothesis", ""),
        ("--reference - -", "read only once"),
        ("--reference ref.de --source - -", "read only once"),
        ("--reference - --reference /dev/stdin hypothesis", "read only once"),
        ("--reference ref.de - /dev/stdin", "read only once"),
    ],
)
def test_standard_input_is_one_of_the_texts(tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    for name in ("hypothesis", "ref.de"):
        (tmp_path / name).write_text("Das Haus ist alt.\n", "utf-8")
    result = CliRunner().invoke(app, ["score", *words.split()], input="Das Haus ist alt.\n")
    assert ("BLEU = 100" in result.stdout, result.exit_code) == ((False, 2) if says else (True, 0))
    assert says in result.stderr


@pytest.mark.parametrize("command", ["score", "compare"])
def test_a_hypothesis_in_another_language_is_named(tmp_path, monkeypatch, command):
    pytest.importorskip("py3langid")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ref").write_text("Der Hund läuft schnell über die grüne Wiese.\n" * 9, "utf-8")
    (tmp_path / "good").write_text("Ein Hund rennt schnell über eine Wiese.\n" * 9, "utf-8")
    (tmp_path / "source").write_text("The dog runs fast across the green meadow.\n" * 9, "utf-8")
    result = CliRunner().invoke(app, [command, "good", "source", "--reference", "ref"], catch_exceptions=False)
    says = "the hypothesis looks like English (en), but the reference like German (de)."
    assert result.stderr == f"warning: source: {says}\n"
