"""COMET, by a double of its package in ``doubles/``: a module with the same interface, and tiny models.

What the double cannot show is that a real model gives the scores of its authors.
"""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import ConfigError, DataError, NmtError
from nmt.evaluation.comet import Comet, model_name
from nmt.evaluation.metrics import make_metric, score, sentence_scores
from nmt.evaluation.score_sheet import score_sheet
from nmt.evaluation.significance import evaluate
from tests.evaluation.doubles.models import DOUBLES, comet_model

SOURCE = ["the house is old", "a dog sleeps", "rain"]
REFERENCE = ["das Haus ist alt", "ein Hund schläft", "Regen"]
GOOD = ["das Haus ist alt", "ein Hund ruht", "Regen"]
BAD = ["das Haus war neu", "eine Katze ruht", "Schnee"]


@pytest.fixture
def doubles(monkeypatch):
    monkeypatch.delitem(sys.modules, "comet", raising=False)
    monkeypatch.syspath_prepend(str(DOUBLES))
    yield
    sys.modules.pop("comet", None)


@pytest.fixture
def comet(doubles, tmp_path):
    return Comet(comet_model(tmp_path / "wmt22"), SOURCE)


def test_the_score_of_a_text_is_the_mean_of_its_segments_times_100(comet):
    each = sentence_scores(comet, GOOD, [REFERENCE])
    assert each.values == pytest.approx([100, 200 / 3, 100])
    assert score(comet, GOOD, [BAD]).value < 85
    whole = score(comet, GOOD, [REFERENCE])  # another reference has other scores
    assert (whole.name, whole.value, whole.detail) == ("COMET", pytest.approx(np.mean(each.values)), "88.89")
    assert whole.signature == each.signature


def test_the_signature_names_the_model_its_weights_and_the_package(comet, tmp_path):
    signature = score(comet, GOOD, [REFERENCE]).signature
    assert signature.startswith("nrefs:1|model:wmt22|sha256:")
    assert signature.endswith("|scale:100|version:unbabel-comet")
    other = Comet(comet_model(tmp_path / "b" / "wmt22", score=0.5), SOURCE)
    assert score(other, GOOD, [REFERENCE]).signature != signature
    # A snapshot in a cache has the name of its model.
    assert model_name(tmp_path / "models--Unbabel--wmt22-comet-da" / "snapshots" / "0123abc") == "wmt22-comet-da"


def test_a_model_without_references_looks_at_the_source(doubles, tmp_path):
    comet = Comet(comet_model(tmp_path / "kiwi", references=False), ["a b", "c"])
    assert sentence_scores(comet, ["a x", "c"], [["", ""]]).values == [50, 100]


def test_source_hypothesis_and_reference_are_not_exchanged(doubles, tmp_path):
    comet = Comet(comet_model(tmp_path / "unequal", unequal=True), ["abc", "a"])
    values = sentence_scores(comet, ["ab", "abcde"], [["a", "abcdefg"]]).values
    assert values == [100 * (3 + 200 + 10_000), 100 * (1 + 500 + 70_000)]


def test_systems_are_compared_by_sacrebleus_tests(comet):
    """The oracle is the test by hand: paired resampling of the segments, with sacreBLEU's seed."""
    [good], [bad] = evaluate({"good": GOOD, "bad": BAD}, [REFERENCE], [comet]).values()
    assert good.p_bootstrap is None
    assert good.value > bad.value
    values = {name: comet.segment_scores(lines, [REFERENCE]) for name, lines in (("g", GOOD), ("b", BAD))}
    rng = np.random.default_rng(12345)
    samples = rng.choice(3, size=(1_000, 3), replace=True)
    means = np.array(values["b"])[samples].mean(axis=1)
    differences = np.abs(means - np.array(values["g"])[samples].mean(axis=1))
    assert bad.mean == pytest.approx(means.mean(), abs=1e-4)
    centred = differences - differences.mean()
    expected = (np.sum(np.abs(centred) > good.value - bad.value) + 1) / 1_001
    assert bad.p_bootstrap == pytest.approx(expected, abs=0.002)
    assert good.signature.endswith("|version:unbabel-comet|seed:12345|bs:1000")


def test_the_sheet_has_comet_and_each_text_is_scored_once(comet, monkeypatch):
    calls = []
    predict = comet._predict
    monkeypatch.setattr(comet, "_predict", lambda *texts: calls.append(texts) or predict(*texts))
    sheet = score_sheet({"good": GOOD, "bad": BAD}, [REFERENCE], references_name="ref.de", samples=50, comet=comet)
    assert list(sheet.signatures) == ["BLEU", "chrF2", "TER", "COMET"]
    first, second = [scores[3] for scores in sheet.systems.values()]
    assert first.value == pytest.approx(score(comet, GOOD, [REFERENCE]).value)
    assert first.interval > 0
    assert 0 < second.p_bootstrap <= 1
    assert len(calls) == 2


def test_a_bare_file_name_is_found_in_the_current_folder(doubles, tmp_path, monkeypatch):
    model = comet_model(tmp_path / "wmt22")
    monkeypatch.chdir(model / "checkpoints")
    comet = Comet(Path("model.ckpt"), SOURCE)
    assert score(comet, GOOD, [REFERENCE]).signature.startswith("nrefs:1|model:wmt22|")
    with pytest.raises(NmtError, match=r"--comet-model other\.ckpt: .*other\.ckpt does not exist"):
        Comet(Path("other.ckpt"), SOURCE)


def test_the_packages_notes_stay_off_the_terminal_and_logging_works_afterwards(comet, capfd, caplog):
    score(comet, GOOD, [REFERENCE])
    logging.getLogger("anything").warning("after")
    assert capfd.readouterr() == ("", "")
    assert caplog.messages == ["after"]


def test_several_references_are_refused(comet):
    with pytest.raises(DataError, match="COMET compares with one reference, but 2 are given"):
        score(comet, GOOD, [REFERENCE, REFERENCE])


@pytest.mark.parametrize("bad", ["nan", "inf"])
def test_scores_that_are_not_finite_are_refused(doubles, tmp_path, bad):
    comet = Comet(comet_model(tmp_path / "broken", score=bad), SOURCE)
    with pytest.raises(NmtError, match=r"not finite. The model may be damaged"):
        score(comet, GOOD, [REFERENCE])


def test_without_a_path_the_error_says_how_to_fetch_a_model():
    with pytest.raises(NmtError, match=r"--metric comet needs a model on this machine: --comet-model PATH\. `hf downl"):
        Comet(None, SOURCE)
    with pytest.raises(NmtError, match="comet needs its model"):
        make_metric("comet")


def test_without_the_package_the_error_names_it(tmp_path, monkeypatch):
    """Whether or not the package is installed beside these tests."""
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(
        NmtError, match=r"COMET needs unbabel-comet, which is not installed. Run `pip install unbabel-c"
    ):
        Comet(comet_model(tmp_path / "a"), SOURCE)


def test_a_package_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "comet.py").write_text("from json import what_is_not_there\n")
    monkeypatch.delitem(sys.modules, "comet", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    with pytest.raises(NmtError, match="cannot be imported: cannot import name 'what_is_not_there'"):
        Comet(comet_model(tmp_path / "a"), SOURCE)


def test_what_is_no_model_is_named(doubles, tmp_path):
    with pytest.raises(NmtError, match=r"--comet-model .*nowhere: .*nowhere does not exist"):
        Comet(tmp_path / "nowhere", SOURCE)
    damaged = comet_model(tmp_path / "damaged")
    (damaged / "checkpoints" / "model.ckpt").write_bytes(b"\x80\x02")
    with pytest.raises(NmtError, match=r"unbabel-comet cannot load it: .*names must be on this machine too"):
        Comet(damaged, SOURCE)


def test_comet_needs_the_source(doubles, tmp_path):
    with pytest.raises(ConfigError, match="--metric comet needs the source text: --source FILE, or a --test-set"):
        Comet(comet_model(tmp_path / "a"), None)
