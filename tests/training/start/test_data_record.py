"""Where a run's data lies: noted in the run, found again after a move, asked for when it is gone."""

import json
import os
import shutil

import pytest

from nmt.errors import CheckpointError
from nmt.training.input.data_sets import DataSets, TrainingData
from nmt.training.start.data_record import data_to_resume, write_data_record
from nmt.training.start.settings import resolve_config, settings_of_run
from tests.training.conftest import assert_same, saved


@pytest.fixture
def project(tmp_path, reversed_words, run_training):
    """A folder with data and a run of 10 updates."""
    root = tmp_path / "project"
    shutil.copytree(reversed_words, root / "data" / "words")
    run_training(root / "runs" / "one", "training.max_updates=10", data=root / "data" / "words")
    return root


def test_a_run_resumes_with_its_own_settings_and_data(project, run_training, listener, tmp_path):
    from nmt.training.run import train

    run_training(tmp_path / "straight", data=project / "data" / "words")
    run = project / "runs" / "one"
    data = data_to_resume(run)
    assert data == [(project / "data" / "words", 1.0)]
    config = settings_of_run(run).resolve(DataSets.open(data)).model_copy()
    assert train(TrainingData.open([folder for folder, _ in data], config), run, listener).was_over
    further = config.model_copy(update={"training": config.training.model_copy(update={"max_updates": 20})})
    train(TrainingData.open([folder for folder, _ in data], further), run, listener)
    assert_same(saved(tmp_path / "straight", 20), saved(run, 20))


def test_data_is_found_after_the_whole_project_moved(project, tmp_path):
    project.rename(tmp_path / "elsewhere")
    assert data_to_resume(tmp_path / "elsewhere" / "runs" / "one") == [(tmp_path / "elsewhere" / "data" / "words", 1.0)]


def test_a_path_that_is_not_utf_8_is_recorded(project):
    run, data = project / "runs" / "one", project / "data" / os.fsdecode(b"w\xf6rter")
    (project / "data" / "words").rename(data)
    write_data_record(run, [data], settings_of_run(run).resolve(DataSets.open([(data, 1.0)])))
    assert data_to_resume(run) == [(data, 1.0)]


def test_data_that_is_gone_is_asked_for(project, tmp_path):
    (project / "data" / "words").rename(tmp_path / "words")
    with pytest.raises(CheckpointError, match=r"reversed was not found .* Name its folder with --data"):
        data_to_resume(project / "runs" / "one")
    assert data_to_resume(project / "runs" / "one", [str(tmp_path / "words")]) == [(tmp_path / "words", 1.0)]


def test_a_record_that_is_missing_or_damaged_asks_for_the_data_too(project):
    run = project / "runs" / "one"
    for content in ("[{", '[{"weight": "x"}]', "3", '[{"weight": 1}]'):
        (run / "data.json").write_text(content)
        with pytest.raises(CheckpointError, match=r"data\.json: is damaged.*--data"):
            data_to_resume(run)
    (run / "data.json").unlink()
    with pytest.raises(CheckpointError, match="--data"):
        data_to_resume(run)
    assert data_to_resume(run, ["somewhere:2"])[0][1] == 2


def test_a_mixture_keeps_its_weights(project, reversed_words, settings_file, listener):
    from nmt.training.run import train

    mixture = [(reversed_words, 1.0), (project / "data" / "words", 0.5)]
    config, _ = resolve_config(mixture, config_file=settings_file, settings=["training.max_updates=2"])
    run = project / "runs" / "mixed"
    train(TrainingData.open([folder for folder, _ in mixture], config), run, listener)
    assert data_to_resume(run) == mixture
    named = [str(project / "data" / "words"), str(reversed_words)]
    assert [weight for _, weight in data_to_resume(run, named)] == [1.0, 0.5]
    for weight in (3.0, 1.0):  # also where it is what a weight is by default
        assert [found for _, found in data_to_resume(run, [named[0], f"{named[1]}:{weight}"])] == [1.0, weight]
    assert [entry["name"] for entry in json.loads((run / "data.json").read_text())] == ["reversed", "reversed"]


def test_only_a_runs_folder_can_be_resumed(project):
    run = project / "runs" / "one"
    assert settings_of_run(run).layers[0].values["training"]["max_updates"] == 10
    with pytest.raises(CheckpointError, match=f"Name the folder of the run: {run}"):
        settings_of_run(run / "last")
    with pytest.raises(CheckpointError, match="no such run"):
        settings_of_run(project / "runs" / "none")
    with pytest.raises(CheckpointError, match=r"no config\.yaml"):
        settings_of_run(project / "data" / "words")
