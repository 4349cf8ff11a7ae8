"""examples/ablations: sweeps that can be read, and what a trained run gains from averaging and search."""

import importlib
import json
from pathlib import Path

import pytest

from nmt.errors import ConfigError
from nmt.training.schedule import learning_rate
from tests.kit.examples import example_command

EXAMPLES = Path(__file__).parents[2] / "examples"
ABLATIONS = EXAMPLES / "ablations"


@pytest.fixture
def ablations(capsys):
    command = example_command(ABLATIONS)

    def run(*words: object) -> str:
        command(*words)
        return capsys.readouterr().out

    return run


def rows(printed: str) -> list[list[str]]:
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


@pytest.fixture(scope="module")
def read_sweep():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES / "sweep")
        yield importlib.import_module("definition").Sweep.read


@pytest.mark.parametrize("path", sorted(ABLATIONS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_sweep_has_settings_that_exist(read_sweep, path):
    sweep = read_sweep(path)
    configs = [sweep.config(row) for row in sweep.rows]
    assert len({config.model_dump_json() for config in configs}) == len(configs) > 1


def test_warm_up_rows_peak_at_the_same_rate(read_sweep):
    sweep, peaks = read_sweep(ABLATIONS / "warmup.yaml"), {}
    for row in sweep.rows:
        config = sweep.config(row)
        warmup = config.schedule.warmup
        peaks[row.name] = learning_rate(warmup, config.schedule, config.model.d_model)
    shares = {name: round(peak / peaks["warm-up 400"], 2) for name, peak in peaks.items()}
    assert list(shares.values()) == [1, 1, 1, 1, 2, 0.5, 1]
    assert list(shares)[4:6] == ["twice the rate", "half the rate"]


@pytest.fixture
def toy(trained):
    return trained / "runs" / "toy-en-de-tiny", trained / "data" / "toy-en-de"


@pytest.mark.slow
def test_averages_and_searches_are_scored(toy, ablations, nmt, tmp_path):
    run, data = toy
    plain = ("--split-sentences", "never", "--no-copy-unknown", "--no-guard")
    nmt("translate", "-m", run / "last", "-i", data / "valid.en", "-o", "last.de", *plain, cwd=tmp_path)
    scored = nmt("score", "--json", "--reference", data / "valid.de", "last.de", cwd=tmp_path).stdout
    [system] = json.loads(scored)["systems"]
    one, two = rows(ablations("averages", run, "--data", data, "--last", 1, "--last", 2))[2:]
    assert [one[0], two[0]] == ["1", "2"]
    assert float(one[1]) == pytest.approx(system["scores"][0]["value"], abs=0.006)
    heading, _, greedy, beam = rows(
        ablations("search", run, "--data", data, "--beam", 1, "--beam", 2, "--length-penalty", 0.6)
    )
    assert heading == ["beam", "α = 0.6"]
    assert [greedy[0], beam[0]] == ["1", "2"]
    assert greedy[1].endswith(")")


@pytest.mark.slow
def test_long_sentences_are_marked(toy, ablations):
    run, data = toy
    printed = ablations("lengths", run, run, "--data", data, "--trained-length", 8)
    _, _, *table = rows(printed)
    assert sum(int(cells[1].replace(",", "")) for cells in table) == len(
        (data / "test.en").read_text("utf-8").splitlines()
    )
    for words, _, first, second in table:
        assert first == second
        assert words.endswith("*") == (int(words.split()[0]) > 8)
    assert "at most 8 words" in printed


@pytest.mark.slow
def test_checkpoints_that_were_not_kept_are_an_error(toy, ablations):
    run, data = toy
    with pytest.raises(ConfigError, match="not 500: train with"):
        ablations("averages", run, "--data", data, "--last", 1, "--last", 500)
