"""Models that the toolkits' own software built, computed and saved are imported and give its log-probabilities.

The weights are random. The other tests read models that ``peers.py`` writes by hand, which only shows that nmt reads
what we think that a toolkit writes.
"""

import json

import numpy as np
import pytest

import nmt
from nmt.convert.certificate.our_side import OurSide
from nmt.convert.converting import export_model, import_model
from tests.convert.real_models.packages import run_with
from tests.convert.test_argos import with_languages

pytestmark = pytest.mark.slow
PROGRAMS = {
    "fairseq": "fairseq_0_12",
    "opennmt-py 2": "opennmt_py_2",
    "opennmt-py 3": "opennmt_py_3",
    "eole": "eole_0_6",
    "joeynmt": "joeynmt_2",
    "sockeye": "sockeye_3",
}
"""Toolkit -> the program in ``real_models`` that builds its models, each with the toolkit's scores in a file."""
TESTS = {"transformers": "test_huggingface_software.py"}
"""Toolkit -> the tests that it takes part in where it is installed."""


@pytest.mark.parametrize("toolkit", PROGRAMS)
def test_scores_are_those_of_the_toolkit(toolkit, tmp_path):
    made = run_with(toolkit, "-W", "ignore", "-m", f"tests.convert.real_models.{PROGRAMS[toolkit]}", tmp_path / "made")
    assert made.returncode == 0, made.stderr
    oracles = sorted((tmp_path / "made").rglob("oracle.json"))
    assert len(oracles) >= 3
    for number, oracle in enumerate(oracles):
        bundle = tmp_path / str(number)
        import_model(oracle.parent, bundle)
        cases = json.loads(oracle.read_text("utf-8"))
        sources, targets = ([[f"▁{piece}" for piece in case[side]] for case in cases] for side in ("source", "target"))
        for case, scores in zip(cases, OurSide(bundle).score(sources, targets), strict=True):
            np.testing.assert_allclose(scores, case["scores"], atol=2e-5, rtol=0, err_msg=str(oracle.parent))


@pytest.mark.parametrize("toolkit", TESTS)
def test_the_toolkit_takes_part_in_certificates(toolkit):
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", "-rs")
    found = run_with(toolkit, "-m", "pytest", *options, f"tests/convert/{TESTS[toolkit]}")
    assert found.returncode == 0, found.stdout
    assert "skipped" not in found.stdout, found.stdout


def test_argos_translate_gives_our_translations(make_bundle, tmp_path):
    pytest.importorskip("ctranslate2", reason="an extra is not installed")
    bundle = with_languages(make_bundle(), tmp_path / "bundle", "en", "de")
    export_model(bundle.folder, tmp_path / "out", to="argos")
    [package] = (tmp_path / "out").glob("*.argosmodel")
    lines = ["ba do ki", "lu me no", "ti ba", "me lu do ki"]
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_text("".join(f"{line}\n" for line in lines))
    program = "tests.convert.real_models.argos_1_11"
    found = run_with("argos", "-W", "ignore", "-m", program, package, tmp_path / "scratch", source, output)
    assert found.returncode == 0, found.stderr
    plain = {"beam": 1, "guard": False, "split_sentences": "never", "copy_unknown": False}
    ours = [one.text for one in nmt.load(bundle.folder, device="cpu", precision="fp32").translate(lines, **plain)]
    assert output.read_text().splitlines() == ours
