"""``nmt score --metric comet``, by a double of its package: a module with the same interface."""

import json
import os
from pathlib import Path

import pytest

from nmt.io.hashing import sha256_of
from nmt.record import parse_record, text_record
from nmt.translation.lineage import translation_record
from tests.evaluation.doubles.models import DOUBLES, comet_model

LINES = {
    "test.en": ["the house is old", "a dog sleeps", "rain"],
    "test.de": ["das Haus ist alt", "ein Hund schläft", "Regen"],
    "good.de": ["das Haus ist alt", "ein Hund ruht", "Regen"],
    "bad.de": ["das Haus war neu", "eine Katze ruht", "Schnee"],
}


@pytest.fixture
def files(tmp_path):
    for name, lines in LINES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    comet_model(tmp_path / "wmt22")
    return tmp_path


@pytest.fixture
def path_with_doubles():
    return os.pathsep.join([str(DOUBLES), *filter(None, [os.environ.get("PYTHONPATH", "")])])


@pytest.mark.slow
def test_the_command_scores_by_comet(files, nmt, path_with_doubles):
    words = ["--reference", "test.de", "--source", "test.en", "--comet-model", "wmt22", "good.de", "bad.de"]
    result = nmt(
        "score", "--metric", "comet", "--json", "--sentence-scores", *words, cwd=files, PYTHONPATH=path_with_doubles
    )
    record = json.loads(result.stdout)
    [good] = record["systems"][0]["scores"]
    assert (good["name"], round(good["value"], 2)) == ("COMET", 88.89)
    assert good["sentences"]["values"] == pytest.approx([100, 200 / 3, 100])
    assert record["comparisons"][0]["systems"][1]["p_value"] <= 1
    lineage = parse_record(record["lineage"], "score.json")
    assert lineage.command[1:3] == ("--metric=comet", "--target-lang=de")
    assert text_record("text", "test.en", sha256_of(files / "test.en"), role="source") in lineage.made_from
    assert result.stderr == ""
    sheet = nmt("score", "--sheet", *words, cwd=files, PYTHONPATH=path_with_doubles)
    assert sheet.stdout.splitlines()[2].split()[-1] == "COMET"


@pytest.fixture
def scored(files, nmt, path_with_doubles, fake_translation):
    """The JSON of a score by COMET, of a file with the record of a translation."""
    words = ["--metric", "comet", "--comet-model", "wmt22"]
    texts = ["--source", "test.en", "--reference", "test.de", "good.de"]
    nmt("score", "--json", *words, *texts, cwd=files, redirected="score.json", PYTHONPATH=path_with_doubles)
    return files


@pytest.fixture
def fake_translation(files):
    """What ``nmt translate`` writes beside a translation, by a model that is not here."""
    record = translation_record(Path("good.de"), [], {"input": files / "test.en"}, {"beam": 4})
    record = record.model_copy(update={"files": {".": sha256_of(files / "good.de")}})
    values = {"version": 1, "record": record.stored(), "bytes": (files / "good.de").stat().st_size}
    (files / ".good.de.nmt.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("file", "link"),
    [("test.en", "text: test.en"), ("wmt22/checkpoints/model.ckpt", "file: {}/wmt22/checkpoints/model.ckpt")],
)
def test_a_source_or_model_that_changed_is_named(scored, nmt, file, link):
    link = link.format(scored)
    assert f"{link}  [unchanged]" in nmt("inspect", "score.json", cwd=scored).stdout
    with (scored / file).open("ab") as stream:
        stream.write(b" ")
    result = nmt("inspect", "score.json", cwd=scored, check=False)
    assert result.returncode == 1
    assert f"{link}  [CHANGED]" in result.stdout
    assert f"{file} is not " in result.stderr


def test_the_role_of_a_model_is_recorded(scored, nmt):
    assert "role: model of COMET" in nmt("inspect", "score.json", cwd=scored).stdout


def test_several_references_are_refused_before_a_model_is_loaded(files, nmt, path_with_doubles):
    (files / "wmt22" / "checkpoints" / "model.ckpt").write_bytes(b"damaged")
    words = ["--metric", "comet", "--comet-model", "wmt22", "--source", "test.en"]
    references = ["--reference", "test.de", "--reference", "bad.de"]
    result = nmt("score", *words, *references, "good.de", cwd=files, check=False, PYTHONPATH=path_with_doubles)
    assert result.returncode == 2
    assert "error: COMET compares with one reference, but 2 are given. Give one." in result.stderr


def test_case_is_never_ignored_by_comet_alone(files, nmt, path_with_doubles):
    words = ["--reference", "test.de", "--source", "test.en", "--comet-model", "wmt22", "--lowercase", "good.de"]
    result = nmt("score", "--metric", "comet", *words, cwd=files, check=False, PYTHONPATH=path_with_doubles)
    assert result.returncode == 2
    assert "--lowercase: COMET never ignores case. Add another metric, or leave it out." in result.stderr
    both = nmt("score", "--metric", "comet", "--metric", "chrf", *words, cwd=files, PYTHONPATH=path_with_doubles)
    assert "case:lc" in both.stdout


def test_the_command_refuses_models_that_nothing_uses(files, nmt):
    result = nmt("score", "--reference", "test.de", "--comet-model", "wmt22", "good.de", cwd=files, check=False)
    assert result.returncode == 2
    assert "--comet-model needs --metric comet or --sheet: no other score uses that model." in result.stderr
