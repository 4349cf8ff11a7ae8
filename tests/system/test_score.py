"""``nmt score`` as people and pipelines run it."""

import json
import re

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


def test_variants_of_a_test_set_are_translated_and_scored(trained, tmp_path, nmt):
    run, data = next((trained / "runs").iterdir()), trained / "data" / "toy-en-de"
    for language in ("en", "de"):
        lines = (data / f"test.{language}").read_text("utf-8").splitlines(keepends=True)[:10]
        (tmp_path / f"test.{language}").write_text("".join(lines), "utf-8")
    command = ["score", "--robustness", str(run), "--source", "test.en", "--reference", "test.de"]
    shown = nmt(*command, cwd=tmp_path).stdout
    assert re.search(r"^as it is +10 +[\d.]+ +100%", shown, re.MULTILINE)
    assert re.search(r"^5 lines in one +2 ", shown, re.MULTILINE)
    (tmp_path / "sheet.json").write_text(nmt(*command, "--json", cwd=tmp_path).stdout)
    assert "BLEU of in capitals" in nmt("inspect", "sheet.json", cwd=tmp_path).stdout
    for more, message in (
        (["test.de"], "leave the hypotheses out"), (["--sheet"], "scored by one --metric"),
        (["--reference", "test.en"], "give one reference"),
    ):  # fmt: skip
        assert message in nmt(*command, *more, cwd=tmp_path, check=False).stderr


def test_two_systems_are_compared_in_text(files, nmt):
    result = nmt("score", "--reference", "ref.de", "good.txt", "bad.txt", cwd=files, SACREBLEU_SEED="7")
    figures, comparison = result.stdout.split("\n\n")
    good, bad = figures.split("bad.txt:\n")
    assert good.startswith("good.txt:\n  BLEU = 100.00 ")
    assert bad.startswith("  BLEU = ")
    heading, baseline, other, signature = comparison.splitlines()
    assert heading == "BLEU, paired bootstrap against good.txt:"
    assert re.fullmatch(r"  100\.00  \(100\.00 ± 0\.00\)  baseline  good\.txt", baseline)
    assert re.fullmatch(r"  +\d+\.\d\d  \(\d+\.\d\d ± \d+\.\d\d\)  p = [01]\.\d{4}  bad\.txt", other)
    assert signature.startswith("  nrefs:1|bs:1000|seed:7|case:mixed|eff:no|tok:13a|")


def test_json_holds_the_score_of_each_sentence_if_asked(files, nmt):
    result = nmt(
        "score", "--json", "--sentence-scores", "--reference", "ref.de", "--metric", "bleu", "--metric", "chrf++",
        "--paper-bleu", "--lowercase", "good.txt", "bad.txt", cwd=files,
    )  # fmt: skip
    good, bad = (system["scores"] for system in json.loads(result.stdout)["systems"])
    assert [score["name"] for score in good] == ["BLEU", "chrF2++", "paper BLEU"]
    assert good[0]["sentences"]["values"] == pytest.approx([100, 100])
    assert "eff:yes" in good[0]["sentences"]["signature"]
    assert all(0 < value < 100 for value in bad[1]["sentences"]["values"])
    assert "case:lc" in good[0]["signature"]
    assert "case:mixed" in good[2]["signature"]
    assert "sentences" not in good[2]


def test_the_tokeniser_follows_a_regional_code_or_the_option(files, nmt):
    chinese = "猫坐在垫子上。\n狗在花园里睡觉。\n"
    for name in ("ref.zh_CN", "test.ref", "out.txt"):
        (files / name).write_text(chinese, "utf-8")
    by_name = nmt("score", "--reference", "ref.zh_CN", "out.txt", cwd=files)
    assert "tok:zh" in by_name.stdout
    assert "warning" not in by_name.stderr
    unknown = nmt("score", "--reference", "test.ref", "out.txt", cwd=files)
    assert "tok:13a" in unknown.stdout
    assert "warning: the reference is written in Chinese characters" in unknown.stderr
    assert "--target-lang zh" in unknown.stderr
    chosen = nmt("score", "--reference", "test.ref", "--tokenize", "char", "out.txt", cwd=files)
    assert "tok:char" in chosen.stdout
    assert "warning" not in chosen.stderr


def test_the_model_of_a_tokeniser_is_fetched_to_where_sacrebleu_looks(files, nmt_apart):
    from nmt.data.vocab import train_vocabulary

    (files / "mirror").mkdir()
    model = train_vocabulary(["Das Haus ist alt.", "Ein Hund schläft im Garten."], size=40).vocab.model_bytes
    (files / "mirror" / "sacrebleu_tokenizer_spm.model").write_bytes(model)
    arguments = ["score", "--reference", "ref.de", "--tokenize", "flores101", "--offline", "good.txt"]
    missing = nmt_apart(*arguments, cwd=files, check=False, SACREBLEU=str(files / "sacrebleu"))
    assert missing.returncode == 2
    assert "sacrebleu_tokenizer_spm.model could not be fetched" in missing.stderr
    found = nmt_apart(*arguments, "--mirror", "mirror", cwd=files, SACREBLEU=str(files / "sacrebleu"))
    assert "BLEU = 100.00" in found.stdout
    assert "tok:flores101" in found.stdout


def test_several_references(files, nmt):
    two = nmt("score", "--reference", "ref.de", "--reference", "bad.txt", "--target-lang", "de", "bad.txt", cwd=files)
    assert "nrefs:2" in two.stdout


def test_an_unknown_language_is_warned_about(files, nmt):
    arguments = ["score", "--reference", "ref.de", "good.txt", "--target-lang"]
    result = nmt(*arguments, "klingon", cwd=files)
    assert "warning: klingon: no language code of ISO 639" in result.stderr
    assert result.stdout.startswith("BLEU = ")
    assert "are applied. Did you mean ja?" in nmt(*arguments, "jp", cwd=files).stderr
    for known in ("de", "pt_BR", "zh-Hans", "tlh"):
        assert "warning" not in nmt(*arguments, known, cwd=files).stderr


def test_marks_of_subwords_are_warned_of(files, nmt):
    (files / "pieces.txt").write_text("▁Das ▁Haus\n▁Ein ▁Hund\n", "utf-8")
    result = nmt("score", "--reference", "ref.de", "pieces.txt", cwd=files)
    assert "warning: the hypothesis has '▁' in 2 lines: are" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reference", "ref.de", "empty.txt"], ["empty"]),
        (["--reference", "ref.de", "short.txt"], ["1 line", "2"]),
        (["--reference", "ref.de", "good.txt", "good.txt"], ["twice"]),
        (["--reference", "none.de", "good.txt"], ["none.de"]),
        (["--test-set", "wmt14/full", "good.txt"], ["--langpair"]),
        (["--test-set", "wmt14/fll", "--langpair", "en-de", "--offline", "good.txt"], ["wmt14/full"]),
        (["--reference", "bad.txt", "--paper-bleu", "good.txt"], ["--target-lang"]),
        (["--reference", "ref.de", "--metric", "chrf", "--tokenize", "intl", "good.txt"], ["only BLEU", "--metric"]),
        (["--reference", "ref.de", "--sentence-scores", "good.txt"], ["--json"]),
        (["--reference", "ref.de", "--source", "short.txt", "good.txt"], ["1 line", "2"]),
        (["--test-set", "wmt14/full", "--langpair", "en-de", "--offline", "--cache", "c", "good.txt"], ["http", "c/"]),
        (["--sheet", "--metric", "ter", "--reference", "ref.de", "bad.txt"], ["--sheet has all metrics"]),
        (["--sheet", "--paper-bleu", "--reference", "ref.de", "bad.txt"], ["--sheet has all metrics"]),
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


def test_a_sheet_has_all_metrics_and_a_test(files, nmt):
    result = nmt("score", "--sheet", "--reference", "ref.de", "good.txt", "bad.txt", cwd=files)
    lines = result.stdout.splitlines()
    assert lines[0] == "references: ref.de, 2 lines"
    assert lines[2].split("  ")[0] == "system"
    assert re.fullmatch(r"system +BLEU +tokenised BLEU +paper BLEU +chrF2 +TER", lines[2])
    assert re.search(r"\nbad\.txt +[01]\.\d{4}", result.stdout)


@pytest.mark.slow
def test_a_sheet_as_json_holds_the_test(files, nmt):
    record = json.loads(
        nmt("score", "--sheet", "--json", "--reference", "ref.de", "good.txt", "bad.txt", cwd=files).stdout
    )
    assert [system["system"] for system in record["systems"]] == ["good.txt", "bad.txt"]
    assert record["systems"][1]["scores"][0]["p_bootstrap"] <= 1
    assert (record["lines"], record["seed"], record["samples"]) == (2, "12345", 1_000)
