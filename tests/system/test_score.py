"""``nmt score`` as people and pipelines run it."""

import json

import pytest


@pytest.fixture
def files(tmp_path):
    (tmp_path / "ref.de").write_text("Das Haus ist alt.\nEin Hund schläft im Garten.\n", "utf-8")
    (tmp_path / "good.txt").write_text("Das Haus ist alt.\nEin Hund schläft im Garten.\n", "utf-8")
    (tmp_path / "bad.txt").write_text("Das Haus ist neu.\nEine Katze schläft im Garten.\n", "utf-8")
    return tmp_path


def test_prints_figure_and_signature(files, nmt):
    result = nmt("score", "--reference", "ref.de", "good.txt", cwd=files)
    assert result.stdout.startswith("BLEU = 100.00 ")
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in result.stdout


def test_reads_standard_input_in_any_locale(files, nmt):
    text = (files / "good.txt").read_text("utf-8")
    result = nmt("score", "--reference", "ref.de", "-", cwd=files, text=text, LC_ALL="C", PYTHONUTF8="0")
    assert "BLEU = 100.00" in result.stdout


def test_line_separators_inside_a_line_are_no_line_ends(files, nmt):
    (files / "ref.de").write_text("eins\u2028zwei\ndrei\u0085vier\n", "utf-8")
    (files / "good.txt").write_text("eins\u2028zwei\ndrei\u0085vier", "utf-8")
    assert nmt("score", "--reference", "ref.de", "good.txt", cwd=files).returncode == 0


def test_metrics_and_the_papers_bleu_are_told_apart(files, nmt):
    result = nmt(
        "score", "--reference", "ref.de", "--metric", "bleu", "--metric", "chrf", "--metric", "ter", "--paper-bleu",
        "bad.txt", cwd=files,
    )  # fmt: skip
    names = [line.split(" = ")[0] for line in result.stdout.splitlines() if " = " in line and not line.startswith(" ")]
    assert names == ["BLEU", "chrF2", "TER", "paper BLEU"]
    assert "tok:moses-de|compounds:split" in result.stdout


def test_json_holds_everything(files, nmt):
    result = nmt("score", "--json", "--reference", "ref.de", "--paper-bleu", "good.txt", "bad.txt", cwd=files)
    record = json.loads(result.stdout)
    assert [system["hypothesis"] for system in record["systems"]] == ["good.txt", "bad.txt"]
    assert [score["name"] for score in record["systems"][0]["scores"]] == ["BLEU", "paper BLEU"]
    assert record["comparisons"][0]["systems"][0]["p_value"] is None
    assert record["comparisons"][0]["systems"][1]["p_value"] <= 1


def test_several_references_and_a_source(files, nmt):
    (files / "src.en").write_text("one\ntwo\nthree\n")
    two = nmt("score", "--reference", "ref.de", "--reference", "bad.txt", "--target-lang", "de", "bad.txt", cwd=files)
    assert "nrefs:2" in two.stdout
    result = nmt("score", "--reference", "ref.de", "--source", "src.en", "good.txt", cwd=files, check=False)
    assert result.returncode == 2
    assert "3 lines" in result.stderr


def test_warns_of_marks_on_stderr_and_scores_all_the_same(files, nmt):
    (files / "pieces.txt").write_text("▁Das ▁Haus\n▁Ein ▁Hund\n", "utf-8")
    result = nmt("score", "--reference", "ref.de", "pieces.txt", cwd=files)
    assert "warning: " in result.stderr
    assert "▁" in result.stderr
    assert result.stdout.startswith("BLEU = ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reference", "ref.de", "empty.txt"], ["empty"]),
        (["--reference", "ref.de", "short.txt"], ["1 lines", "2"]),
        (["--reference", "ref.de", "good.txt", "good.txt"], ["twice"]),
        (["--reference", "none.de", "good.txt"], ["none.de"]),
        (["--test-set", "wmt14/full", "good.txt"], ["--langpair"]),
        (["--test-set", "wmt14/fll", "--langpair", "en-de", "--offline", "good.txt"], ["wmt14/full"]),
        (["--reference", "bad.txt", "--paper-bleu", "good.txt"], ["--target-lang"]),
    ],
)
def test_mistakes_are_told(files, nmt, arguments, words):
    (files / "empty.txt").touch()
    (files / "short.txt").write_text("eine Zeile\n")
    result = nmt("score", *arguments, cwd=files, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


def test_a_test_set_offline_says_what_is_missing_and_where_to_put_it(files, nmt):
    result = nmt(
        "score", "--test-set", "wmt14/full", "--langpair", "en-de", "--offline", "--cache", "cache", "good.txt",
        cwd=files, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert "http" in result.stderr
    assert "cache" in result.stderr
