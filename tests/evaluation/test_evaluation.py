"""Scores against sacreBLEU's own, and the paper's BLEU against its procedure written out."""

import json
import math
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter

import pytest

from nmt.errors import DataError, NmtError
from nmt.evaluation.metrics import make_metric, score, sentence_scores, tokenizer_of
from nmt.evaluation.paper_bleu import moses_tokenizer, paper_bleu, split_compounds
from nmt.evaluation.significance import evaluate
from nmt.evaluation.text_checks import hypothesis_warnings, tokenizer_warnings

REFERENCES = [
    "Der Zug nach Köln-Deutz fährt um 9 Uhr ab.",
    "Sie sagte: „Das ist – leider – nicht möglich.“",
    "Ein E-Mail-Konto kostet 3,50 Euro im Monat.",
    "Wir haben gestern im Garten gegessen.",
    "Die Kinder spielen, während es regnet.",
]
HYPOTHESES = [
    "Der Zug nach Köln-Deutz geht um 9 Uhr.",
    "Sie sagte: „Das ist leider nicht möglich.“",
    "Ein E-Mail-Konto kostet 3,50 Euro pro Monat.",
    "Gestern haben wir im Garten gegessen.",
    "Die Kinder spielen, während es regnet.",
]


def multi_bleu(hypotheses: list[list[str]], references: list[list[str]]) -> float:
    """Papineni et al. 2002, as Moses' multi-bleu counts it: cased, one reference, no smoothing."""
    matches, totals = [0] * 4, [0] * 4
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            found = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1))
            there = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
            matches[n - 1] += sum((found & there).values())
            totals[n - 1] += sum(found.values())
    length, wanted = sum(map(len, hypotheses)), sum(map(len, references))
    brevity = 1.0 if length >= wanted else math.exp(1 - wanted / length)
    return 100 * brevity * math.exp(sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4)


# What the authors' steps make of the lines above, written down by hand.
TOKENISED = {
    REFERENCES[0]: "Der Zug nach Köln ##AT##-##AT## Deutz fährt um 9 Uhr ab .",
    REFERENCES[1]: "Sie sagte : „ Das ist – leider – nicht möglich . &quot;",
    REFERENCES[2]: "Ein E ##AT##-##AT## Mail ##AT##-##AT## Konto kostet 3,50 Euro im Monat .",
    HYPOTHESES[1]: "Sie sagte : „ Das ist leider nicht möglich . &quot;",
}


@pytest.mark.parametrize("line", TOKENISED)
def test_each_line_goes_through_the_authors_steps(line):
    assert moses_tokenizer("de", splits_compounds=True)(line) == TOKENISED[line]


def test_paper_bleu_equals_the_procedure_step_by_step():
    def steps(line: str) -> list[str]:
        if line in TOKENISED:
            return TOKENISED[line].split()
        tokens = re.sub(r"([.,])(?=\s|$)", r" \1", line)
        return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens).split()

    expected = multi_bleu([steps(line) for line in HYPOTHESES], [steps(line) for line in REFERENCES])
    found = paper_bleu(HYPOTHESES, [REFERENCES], target_lang="de")
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert found.name == "paper BLEU"
    assert found.value != score(make_metric("bleu", "de"), HYPOTHESES, [REFERENCES]).value


def test_compounds_are_split_for_german_alone():
    assert split_compounds("a-b-c -d e- f") == "a ##AT##-##AT## b-c -d e- f"  # as the authors' pattern, without overlap
    assert "##AT##" not in moses_tokenizer("fr", splits_compounds=False)("un porte-monnaie")
    assert "compounds:split" in paper_bleu(HYPOTHESES, [REFERENCES], target_lang="de").signature
    assert "compounds:whole" in paper_bleu(HYPOTHESES, [REFERENCES], target_lang="fr").signature


def test_without_smoothing_no_match_is_zero():
    assert paper_bleu(["ganz anders"], [["kein Wort davon"]], target_lang="de").value == 0.0


@pytest.mark.parametrize(
    ("hypotheses", "references", "words"),
    [(3, 5, ["3 lines", "5"]), (0, 5, ["empty"]), (3003, 2737, ["wmt14/full"]), (2737, 3003, ["test-set wmt14."])],
)
def test_unequal_counts_are_refused(hypotheses, references, words):
    with pytest.raises(DataError) as error:
        score(make_metric("bleu"), ["x"] * hypotheses, [["x"] * references])
    for word in words:
        assert word in str(error.value)


def test_subword_marks_and_tokenised_text_warn():
    assert hypothesis_warnings(HYPOTHESES, [REFERENCES]) == []
    assert "▁" in hypothesis_warnings(["▁Ein ▁Haus"], [["Ein Haus"]])[0]
    composed = ["Für die Tür.", "Schön – sehr schön!", *["Gut."] * 10]
    decomposed = [unicodedata.normalize("NFD", line) for line in composed]
    assert hypothesis_warnings(decomposed, [decomposed]) == hypothesis_warnings(composed, [composed]) == []
    assert "the hypothesis has letters and accents apart" in hypothesis_warnings(decomposed, [composed])[0]
    assert "the reference has letters and accents apart" in hypothesis_warnings(composed, [decomposed])[0]
    assert "@@" in hypothesis_warnings(["Ein Ha@@ us"], [["Ein Haus"]])[0]
    tokenised = [re.sub(r"([.,:])", r" \1", line) for line in HYPOTHESES]
    assert "tokenised" in hypothesis_warnings(tokenised, [REFERENCES])[0]
    assert hypothesis_warnings(tokenised, [tokenised]) == []
    assert hypothesis_warnings(tokenised, [REFERENCES, tokenised]) == []


def test_systems_are_compared_with_the_first():
    systems = {"base": HYPOTHESES * 20, "same": HYPOTHESES * 20, "gold": REFERENCES * 20}
    [base], [same], [gold] = evaluate(systems, [REFERENCES * 20], [make_metric("bleu", "de")], samples=200).values()
    assert base.p_bootstrap is None
    assert same.value == base.value == score(make_metric("bleu"), HYPOTHESES * 20, [REFERENCES * 20]).value
    assert gold.p_bootstrap is not None
    assert gold.p_bootstrap < 0.01


def test_the_comparison_is_a_paired_bootstrap_by_its_signature_and_figures(monkeypatch):
    """sacreBLEU also has approximate randomisation, which says something else with the same layout."""
    from sacrebleu.metrics import BLEU, CHRF
    from sacrebleu.significance import PairedTest

    monkeypatch.setenv("SACREBLEU_SEED", "7")
    systems = {"base": HYPOTHESES * 5, "other": (HYPOTHESES[1:] + HYPOTHESES[:1]) * 5}
    metrics = [make_metric("bleu", "de"), make_metric("chrf")]
    found = evaluate(systems, [REFERENCES * 5], metrics, samples=100)
    oracle = PairedTest(
        list(systems.items()), {"bleu": BLEU(), "chrf": CHRF()}, [REFERENCES * 5], test_type="bs", n_samples=100
    )
    signatures, results = oracle()
    for number, name in enumerate(signatures):
        for (system, scores), theirs in zip(found.items(), results[name], strict=True):
            ours = scores[number]
            assert (ours.name, ours.signature) == (name, signatures[name].format())
            assert "|bs:100|seed:7|" in ours.signature
            assert (ours.value, ours.mean, ours.interval) == (theirs.score, theirs.mean, theirs.ci), system
            assert ours.p_bootstrap == theirs.p_value


def test_the_bootstrap_draws_a_thousand_test_sets_unless_told_otherwise():
    found = evaluate({"a": HYPOTHESES, "b": REFERENCES}, [REFERENCES], [make_metric("chrf")])
    assert "|bs:1000|" in found["a"][0].signature


COMMANDS = {
    "13a": (["bleu"], {}),
    "intl": (["bleu", "--tokenize", "intl"], {"tokenize": "intl"}),
    "lowercase": (["bleu", "--tokenize", "char", "--lowercase"], {"tokenize": "char", "lowercase": True}),
    "none": (["bleu", "--tokenize", "none"], {"tokenize": "none"}),
    "zh": (["bleu", "--tokenize", "zh"], {"target_lang": "zh-Hant"}),
    "chrf": (["chrf", "--chrf-lowercase"], {"lowercase": True}),
    "chrf++": (["chrf", "--chrf-word-order", "2"], {}),
    "ter": (["ter"], {"lowercase": True}),
    "ter of Korean": (["ter"], {"target_lang": "ko"}),
    "ter of Chinese": (["ter", "--ter-normalized", "--ter-asian-support"], {"target_lang": "zh"}),
}


SACREBLEU = """
import contextlib, json, sys
from sacrebleu.sacrebleu import main

opened = []
for words in json.loads(sys.argv[1]):
    opened += [sys.stdin, sys.stdout]  # main opens others on their descriptors, which would be closed with them
    sys.argv = ["sacrebleu", "ref", "-i", "hyp", "--width", "9", *words]
    with contextlib.suppress(SystemExit):
        main()
    print(end="\\0", flush=True)
"""


@pytest.fixture(scope="module")
def sacrebleus(tmp_path_factory) -> dict[str, list[str]]:
    """By the names of ``COMMANDS``, what sacreBLEU's command prints as JSON and of each sentence."""
    folder = tmp_path_factory.mktemp("sacrebleu")
    (folder / "ref").write_text("\n".join(REFERENCES) + "\n", "utf-8")
    (folder / "hyp").write_text("\n".join(HYPOTHESES) + "\n", "utf-8")
    kinds = (["--format", "json"], ["--sentence-level"])
    commands = [[*kind, "--metrics", *arguments] for arguments, _ in COMMANDS.values() for kind in kinds]
    words = [sys.executable, "-c", SACREBLEU, json.dumps(commands)]
    environment = os.environ | {"NO_COLOR": "1"}
    ended = subprocess.run(words, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    printed = ended.stdout.split("\0")
    return {name: printed[2 * number :][:2] for number, name in enumerate(COMMANDS)}


@pytest.mark.parametrize("name", COMMANDS)
def test_figures_and_signatures_are_those_of_sacrebleus_command(name, sacrebleus):
    arguments, options = COMMANDS[name]
    metric = "chrf++" if name == "chrf++" else arguments[0]
    printed, of_sentences = sacrebleus[name]
    theirs = json.loads(printed)
    ours = score(make_metric(metric, **options), HYPOTHESES, [REFERENCES])
    assert ours.name == theirs["name"]
    assert ours.value == pytest.approx(theirs["score"], abs=1e-8)
    keys = ["nrefs", "case", "eff", "tok", "nc", "nw", "space", "norm", "punct", "asian", "smooth", "version"]
    assert dict(part.split(":") for part in ours.signature.split("|")) == {
        key: str(theirs[key]) for key in keys if key in theirs
    }

    sentences = sentence_scores(make_metric(metric, sentences=True, **options), HYPOTHESES, [REFERENCES])
    for line, value in zip(of_sentences.splitlines(), sentences.values, strict=True):
        assert line.startswith(f"{ours.name}|{sentences.signature} = {value:.9f}")


@pytest.mark.parametrize("code", ["zh", "zh_CN", "zh-TW", "zh-Hans", "zho_Hans", "cmn"])
def test_the_tokeniser_goes_by_the_language_whatever_its_region(code):
    assert "tok:zh" in score(make_metric("bleu", code), ["你好吗"], [["你好吗"]]).signature


@pytest.mark.parametrize(
    ("code", "tokenizer"),
    [("tha", "char"), ("km", "char"), ("my_MM", "char"), ("yue", "zh"), ("hi", "13a"), ("", "13a")],
)
def test_the_tokeniser_splits_the_script_of_the_language(code, tokenizer):
    assert tokenizer_of(score(make_metric("bleu", code), ["ก"], [["ก"]]).signature) == tokenizer


@pytest.mark.parametrize("code", ["zh", "ja_JP"])
def test_ter_counts_ideographs_not_lines(code):
    ter = score(make_metric("ter", code), ["你好吗"], [["你好呢"]])
    assert ter.value == pytest.approx(100 / 3)
    assert "norm:yes|punct:yes|asian:yes" in ter.signature


def test_paper_bleu_takes_a_regional_code():
    at = paper_bleu(HYPOTHESES, [REFERENCES], target_lang="de-AT")
    assert at == paper_bleu(HYPOTHESES, [REFERENCES], target_lang="de")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("猫坐在垫子上。", "--target-lang zh"),
        ("猫がマットの上に座っています。", "--target-lang ja"),
        ("日本語教育研究の歴史", "--target-lang ja"),
        ("고양이가 매트 위에 앉아 있다.", "--target-lang ko"),
        ("แมวนั่งบนเสื่อ", "--target-lang th"),
        ("ឆ្មាអង្គុយលើកន្ទេល", "--target-lang km (or --tokenize char)"),
    ],
)
def test_text_that_the_tokeniser_leaves_whole_is_warned_about(line, words):
    [warning] = tokenizer_warnings([[line, "OK"] * 3], "13a")
    assert words in warning
    assert tokenizer_warnings([[line] * 3], "char") == []


def test_some_foreign_words_are_no_cause_to_warn():
    assert tokenizer_warnings([[*REFERENCES, "Das Zeichen 猫 heißt Katze."]], "13a") == []
    assert tokenizer_warnings([[], ["", "1 + 1"]], "13a") == []


def test_tokenisers_that_are_not_there_are_one_clear_error(monkeypatch, tmp_path):
    from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_spm

    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    with pytest.raises(NmtError, match=r"^the tokeniser ja-mecab is not installed: pip install 'sacrebleu\[ja\]'"):
        score(make_metric("bleu", "ja-JP"), ["猫"], [["猫"]])
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(NmtError, match=r"flores200 needs .*models.*Fetch it from http"):
        score(make_metric("bleu", tokenize="flores200"), ["a"], [["a"]])
