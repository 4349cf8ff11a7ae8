"""What ``nmt score`` takes from a test set, and its metrics in any order."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli.app import app
from nmt.corpora import testsets


def scored(text: str, *words: str) -> dict[str, dict]:
    """The scores of a text that is its own reference, by their names."""
    for name in ("hypothesis", "ref", "ref.de"):
        Path(name).write_text(f"{text}\n", "utf-8")
    result = CliRunner().invoke(app, ["score", "--json", "hypothesis", *words], catch_exceptions=False)
    return {score["name"]: score for score in json.loads(result.stdout)["systems"][0]["scores"]}


@pytest.mark.parametrize("words", [("--test-set", "wmt20"), ("--reference", "ref")])
def test_the_language_is_the_target_of_the_pair(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    found = testsets.SourceAndReferences(["He came."], [["他来了。"]])
    monkeypatch.setattr(testsets, "fetch_test_set", lambda *words, **options: found)
    assert "tok:zh" in scored("他来了。", "--langpair", "en-zh", *words)["BLEU"]["signature"]


def test_bleu_need_not_be_the_first_metric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = scored("Das Haus ist alt.", "--metric", "chrf", "--metric", "bleu", "--reference", "ref.de")
    values = [(name, score["value"]) for name, score in found.items()]
    assert values == [("chrF2", 100), ("BLEU", pytest.approx(100))]


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
