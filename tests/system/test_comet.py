"""``nmt score --metric comet``, by a double of its package: a module with the same interface."""

import json
import os
import sys
from pathlib import Path

import pytest

from nmt.io.hashing import sha256_of
from nmt.record import parse_record, text_record
from nmt.translation.lineage import translation_record
from tests.commands import ForkedPython
from tests.evaluation.doubles.models import DOUBLES, comet_model
from tests.processes import SECONDS

LINES = {
    "test.en": ["the house is old", "a dog sleeps", "rain"],
    "test.de": ["das Haus ist alt", "ein Hund schläft", "Regen"],
    "good.de": ["das Haus ist alt", "ein Hund ruht", "Regen"],
    "bad.de": ["das Haus war neu", "eine Katze ruht", "Schnee"],
}
TEXTS = ["--reference", "test.de", "--source", "test.en"]
COMET = ["--metric", "comet", "--comet-model", "wmt22"]


@pytest.fixture
def files(tmp_path):
    """Texts, a model, and the record that ``nmt translate`` writes beside a translation, by a model not here."""
    for name, lines in LINES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    comet_model(tmp_path / "wmt22")
    record = translation_record(Path("good.de"), [], {"input": tmp_path / "test.en"}, {"beam": 4})
    record = record.model_copy(update={"files": {".": sha256_of(tmp_path / "good.de")}})
    values = {"version": 1, "record": record.stored(), "bytes": (tmp_path / "good.de").stat().st_size}
    (tmp_path / ".good.de.nmt.json").write_text(json.dumps(values))
    return tmp_path


@pytest.fixture
def score(nmt, files, monkeypatch):
    """Runs ``nmt score`` with the double."""
    monkeypatch.delitem(sys.modules, "comet", raising=False)
    monkeypatch.syspath_prepend(str(DOUBLES))
    yield lambda *words, **options: nmt("score", *words, cwd=files, **options)
    sys.modules.pop("comet", None)


def test_the_scores_of_the_command_are_recorded_with_source_and_model(nmt, files):
    words = ("score", *COMET, "--json", "--sentence-scores", *TEXTS, "good.de", "bad.de")
    program = f"import sys; sys.path.insert(0, {str(DOUBLES)!r}); from nmt.__main__ import main; main()"
    with (files / "score.json").open("wb") as out:
        process = ForkedPython(["-c", program, *words], str(files), dict(os.environ), stdout=out)
        assert process.wait(SECONDS) == 0
    record = json.loads((files / "score.json").read_text("utf-8"))
    [good] = record["systems"][0]["scores"]
    assert (good["name"], round(good["value"], 2)) == ("COMET", 88.89)
    assert good["sentences"]["values"] == pytest.approx([100, 200 / 3, 100])
    assert record["comparisons"][0]["systems"][1]["p_value"] <= 1
    lineage = parse_record(record["lineage"], "score.json")
    assert lineage.command[1:3] == ("--metric=comet", "--target-lang=de")
    assert text_record("text", "test.en", sha256_of(files / "test.en"), role="source") in lineage.made_from
    links = {"test.en": "text: test.en", "wmt22/checkpoints/model.ckpt": f"file: {files}/wmt22/checkpoints/model.ckpt"}
    whole = nmt("inspect", "score.json", cwd=files).stdout
    assert "role: model of COMET" in whole
    assert all(f"{link}  [unchanged]" in whole for link in links.values())
    for file in links:
        with (files / file).open("ab") as stream:
            stream.write(b" ")
    changed = nmt("inspect", "score.json", cwd=files, check=False)
    assert changed.returncode == 1
    assert all(f"{link}  [CHANGED]" in changed.stdout for link in links.values())
    assert all(f"{file} is not " in changed.stderr for file in links)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            [*COMET, *TEXTS, "--reference", "bad.de"],
            "error: COMET compares with one reference, but 2 are given. Give one.",
        ),
        ([*COMET, *TEXTS, "--lowercase"], "--lowercase: COMET never ignores case. Add another metric"),
        (
            ["--reference", "test.de", "--comet-model", "wmt22"],
            "--comet-model needs --metric comet or --sheet: no other score uses that model.",
        ),
    ],
)
def test_what_comet_cannot_do_is_refused_before_a_model_is_loaded(score, files, words, error):
    (files / "wmt22" / "checkpoints" / "model.ckpt").write_bytes(b"damaged")
    result = score(*words, "good.de", check=False)
    assert (result.returncode, error in result.stderr) == (2, True)


@pytest.mark.slow
def test_a_sheet_and_other_metrics_go_with_comet(score):
    sheet = score("--sheet", "--comet-model", "wmt22", *TEXTS, "good.de", "bad.de")
    assert sheet.stdout.splitlines()[2].split()[-1] == "COMET"
    assert "case:lc" in score(*COMET, "--metric", "chrf", "--lowercase", *TEXTS, "good.de").stdout
