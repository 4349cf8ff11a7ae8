"""The score sheet has sacreBLEU's own scores, intervals and p-values."""

import random

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from nmt.errors import ConfigError, DataError
from nmt.evaluation.metrics import make_metric
from nmt.evaluation.paper_bleu import paper_bleu
from nmt.evaluation.score_sheet import score_sheet
from nmt.evaluation.significance import evaluate

WORDS = ["der", "die", "das", "Hund", "Haus", "E-Mail", "geht", "schnell", "über", "Straße", ",", ".", "3.5", "nicht"]


def lines(seed: int, count: int = 60) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 15))) for _ in range(count)]


def disturbed(text: list[str], seed: int, share: float) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(word if draw.random() > share else draw.choice(WORDS) for word in line.split()) for line in text]


REFERENCE = lines(0)
SYSTEMS = {
    "base": disturbed(REFERENCE, 1, 0.4),
    "new": disturbed(REFERENCE, 2, 0.2),
    "other": disturbed(REFERENCE, 3, 0.4),
}


@pytest.fixture(scope="module")
def sheet():
    return score_sheet(SYSTEMS, [REFERENCE], references_name="ref.de", target_lang="de", samples=200)


def by_name(sheet, system: int) -> dict:
    return {score.name: score for score in list(sheet.systems.values())[system]}


def test_scores_intervals_and_tests_are_those_of_sacrebleu(sheet):
    metrics = {"BLEU": BLEU(), "chrF2": CHRF(), "TER": TER()}
    named = list(SYSTEMS.items())
    _, bootstrap = PairedTest(named, dict(metrics), [REFERENCE], test_type="bs", n_samples=200)()
    for name in metrics:
        for number in range(len(SYSTEMS)):
            found, expected = by_name(sheet, number)[name], bootstrap[name][number]
            assert (found.value, found.mean, found.interval) == (expected.score, expected.mean, expected.ci)
            assert found.p_bootstrap == expected.p_value
    assert by_name(sheet, 1)["BLEU"].p_bootstrap < 0.05 < by_name(sheet, 2)["BLEU"].p_bootstrap
    assert sheet.signatures["BLEU"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|")


@pytest.mark.parametrize("metric", [BLEU(), CHRF(), TER()], ids=["BLEU", "chrF2", "TER"])
def test_the_interval_of_a_single_system_is_that_of_sacrebleu(metric):
    alone = score_sheet({"new": SYSTEMS["new"]}, [REFERENCE], references_name="ref.de", samples=200)
    expected = metric.corpus_score(SYSTEMS["new"], [REFERENCE], n_bootstrap=200)
    [found] = [score for score in alone.systems["new"] if score.name == expected.name]
    assert (found.value, found.mean, found.interval) == pytest.approx((expected.score, expected._mean, expected._ci))
    assert found.p_bootstrap is None
    assert list(alone.signatures) == ["BLEU", "chrF2", "TER"]  # no language, so no tokeniser of the paper


def test_the_papers_bleu_is_that_of_its_own_command(sheet):
    for number, system in enumerate(SYSTEMS.values()):
        expected = paper_bleu(system, [REFERENCE], target_lang="de")
        assert by_name(sheet, number)["paper BLEU"].value == pytest.approx(expected.value)
        assert sheet.signatures["paper BLEU"] == expected.signature
    assert "compounds:whole" in sheet.signatures["tokenised BLEU"]
    assert by_name(sheet, 1)["tokenised BLEU"].value != by_name(sheet, 1)["paper BLEU"].value


def test_only_german_has_bleu_with_and_without_split_compounds():
    french = score_sheet(
        {"new": SYSTEMS["new"]}, [REFERENCE], references_name="ref.fr", target_lang="fr_CA", samples=20
    )
    assert list(french.signatures) == ["BLEU", "paper BLEU", "chrF2", "TER"]
    assert "tok:moses-fr|compounds:whole" in french.signatures["paper BLEU"]


def test_equal_systems_do_not_differ():
    """sacreBLEU gives equal scores its least p-value."""
    systems = {"one": SYSTEMS["new"], "other": SYSTEMS["new"]}
    alike = score_sheet(systems, [REFERENCE], references_name="ref.de", target_lang="de", samples=50)
    assert {score.p_bootstrap for score in alike.systems["other"]} == {1.0}
    [one], [other] = evaluate(systems, [REFERENCE], [make_metric("bleu")], samples=50).values()
    assert (one.p_bootstrap, other.p_bootstrap) == (None, 1.0)


@pytest.mark.parametrize("seed", ["abc", "-3", "1.5", "\u0663", "0"])
def test_a_seed_that_is_none_is_an_error(monkeypatch, seed):
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    with pytest.raises(ConfigError, match=r"SACREBLEU_SEED=.*must be a whole number from 1, or none"):
        score_sheet({"new": SYSTEMS["new"]}, [REFERENCE], references_name="ref.de", samples=5)
    with pytest.raises(ConfigError, match="SACREBLEU_SEED"):
        evaluate(SYSTEMS, [REFERENCE], [make_metric("bleu")], samples=5)


def test_text_without_spaces_has_no_bleu_of_the_paper():
    chinese = score_sheet({"a": ["你好吗"]}, [["你好"]], references_name="ref.zh", target_lang="zh", samples=5)
    assert list(chinese.signatures) == ["BLEU", "chrF2", "TER"]


def test_unequal_counts_name_the_system():
    with pytest.raises(DataError, match="short has 59 lines"):
        score_sheet({"short": REFERENCE[1:]}, [REFERENCE], references_name="ref.de")


def test_tokeniser_case_and_number_of_references_are_those_asked_for():
    references = [REFERENCE, SYSTEMS["other"]]
    system = [line.upper() for line in SYSTEMS["new"]]
    made = score_sheet(
        {"new": system}, references, references_name="", target_lang="de", tokenize="char", lowercase=True, samples=5
    )
    found = by_name(made, 0)
    for metric in (BLEU(tokenize="char", lowercase=True), CHRF(lowercase=True), TER()):
        score = metric.corpus_score(system, references)
        assert found[score.name].value == pytest.approx(score.score)
        assert made.signatures[score.name].startswith("nrefs:2|")
    assert "|case:lc|" in made.signatures["BLEU"] and "|tok:char|" in made.signatures["BLEU"]
    paper = paper_bleu(system, references, target_lang="de")
    assert (found["paper BLEU"].value, made.signatures["paper BLEU"]) == (pytest.approx(paper.value), paper.signature)
