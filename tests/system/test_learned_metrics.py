"""``nmt score --metric comet`` and ``bleurt``, by doubles of their packages: modules with the same interface."""

import json
import os

import pytest

from tests.evaluation.doubles.models import DOUBLES, bleurt_model, comet_model

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
    bleurt_model(tmp_path / "BLEURT-20")
    return tmp_path


@pytest.fixture
def path_with_doubles():
    return os.pathsep.join([str(DOUBLES), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def test_the_command_scores_by_comet_and_bleurt(files, nmt, path_with_doubles):
    words = ["--reference", "test.de", "--source", "test.en", "--comet-model", "wmt22", "good.de", "bad.de"]
    result = nmt(
        "score", "--metric", "comet", "--json", "--sentence-scores", *words, cwd=files, PYTHONPATH=path_with_doubles
    )
    record = json.loads(result.stdout)
    [good] = record["systems"][0]["scores"]
    assert (good["name"], round(good["value"], 2)) == ("COMET", 88.89)
    assert good["sentences"]["values"] == pytest.approx([100, 200 / 3, 100])
    assert record["comparisons"][0]["systems"][1]["p_value"] <= 1
    options = record["lineage"]["options"]
    assert options[options.index("--comet-model") + 1] == str(files / "wmt22")
    assert options[options.index("--source") + 1] == str(files / "test.en")
    assert result.stderr == ""
    sheet = nmt("score", "--sheet", "--bleurt-model", "BLEURT-20", *words, cwd=files, PYTHONPATH=path_with_doubles)
    assert sheet.stdout.splitlines()[2].split()[-2:] == ["COMET", "BLEURT"]


def test_the_command_refuses_models_that_nothing_uses(files, nmt):
    result = nmt("score", "--reference", "test.de", "--comet-model", "wmt22", "good.de", cwd=files, check=False)
    assert result.returncode == 2
    assert "--comet-model needs --metric comet or --sheet: no other score uses that model." in result.stderr
