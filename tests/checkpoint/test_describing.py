"""What is said of a model, and which run is meant where none is named."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from nmt.checkpoint.averaging import last_checkpoints
from nmt.checkpoint.describing import describe_model, has_checkpoints, models_to_use, newest_trained_run
from nmt.checkpoint.run_folder import RunFolder, chosen_bundle, newest_run, update_links
from nmt.checkpoint.scores import Score
from nmt.errors import CheckpointError, NmtError
from nmt.lineage.reading import read_lineage
from nmt.reports.run_history import read_runs
from nmt.training.start.settings import settings_of_run
from tests.records import average_notes


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def make_run(root, name, scores=None, *, updates=(), hours_old=0.0, settings="data: {source_lang: en}"):
    """A run with a checkpoint after each of some updates."""
    run = root / name
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(settings)
    for update in updates:
        folder = RunFolder(run).checkpoint(update)
        folder.mkdir(parents=True)
        (folder / "model.safetensors").touch()
        (folder / "config.yaml").write_text(settings)
        written = {str(of): asdict(score) for of, score in (scores or {}).items()}
        (folder / "training.json").write_text(json.dumps({"update": update, "scores": written}))
    then = time.time() - 3600 * hours_old
    for path in (*run.rglob("*"), run):
        os.utime(path, (then, then))
    return run


def test_a_checkpoint_is_described_by_update_and_score(root):
    run = make_run(root, "x", {400: Score(2.5, 10.0), 800: Score(2.5, 67.64), 1600: Score(2.5, 99.0)}, updates=[800])
    assert describe_model(RunFolder(run).checkpoint(800)).endswith("step-00000800 (update 800, BLEU 67.64)")


def test_a_model_is_described_by_its_direction(root):
    run = make_run(root, "x", updates=[400], settings="data: {source_lang: en, target_lang: pt_BR}")
    assert describe_model(RunFolder(run).checkpoint(400)).endswith("(en-pt_BR, update 400)")


@pytest.mark.parametrize("typed", ["runs/captoins", "captions", "rnus/captions"])
def test_a_mistyped_name_is_answered_with_the_nearest(root, typed):
    make_run(root, "captions", updates=[400])
    for use in (chosen_bundle, read_lineage, settings_of_run, read_runs, lambda run: last_checkpoints(run, 2)):
        with pytest.raises(NmtError, match=r"there is no such .* \(did you mean 'runs/captions'\?\)"):
            use([Path(typed)] if use is read_runs else Path(typed))


def test_a_checkpoint_that_was_not_validated_shows_no_score_of_another(root):
    run = make_run(root, "x", {400: Score(2.5, 10.0)}, updates=[400, 1200])
    assert describe_model(RunFolder(run).checkpoint(1200)).endswith("(update 1,200)")


def test_a_checkpoint_that_was_validated_after_it_was_saved_has_that_score(root):
    run = make_run(root, "x", {1600: Score(2.5, 9.0), 1200: Score(2.5, 10.0)}, updates=[1600])
    make_run(root / "x", "part", updates=[1200])
    (root / "x/part/checkpoints/step-00001200").rename(RunFolder(run).checkpoint(1200))
    assert "(update 1,200, BLEU 10.00)" in describe_model(RunFolder(run).checkpoint(1200))


def make_average(run, validation, *, of=(200, 400)):
    average = run / "average"
    average.mkdir()
    (average / "model.safetensors").touch()
    (average / "config.yaml").write_text("validation: {bleu: true}")
    notes = average_notes(RunFolder(run).checkpoint(update) for update in of)
    (average / "notes.json").write_text(json.dumps(notes | ({"validation": validation} if validation else {})))
    return average


@pytest.mark.parametrize(
    ("validation", "facts"),
    [
        ({"loss": 2.0, "bleu": 9.5}, "update 400, BLEU 9.50)"),
        ({"loss": 2.0, "bleu": None}, "update 400, loss 2.000)"),
        (None, "update 400)"),
    ],
)
def test_an_average_has_its_own_score_and_the_update_of_its_last_checkpoint(root, validation, facts):
    run = make_run(root, "x", {400: Score(2.5, 10.0)}, updates=[200, 400])
    assert f"average ({facts}" in describe_model(make_average(run, validation, of=(400, 200)))
    run.rename(root / "moved")
    assert f"average ({facts}" in describe_model(root / "moved" / "average")


@pytest.mark.parametrize(
    ("scores", "validation", "reason"),
    [
        ({200: Score(2.5, 9.0), 400: Score(2.5, 10.0)}, {"loss": 2.0, "bleu": 10.01}, None),
        ({200: Score(2.5, 9.0), 400: Score(2.5, 10.0)}, {"loss": 2.0, "bleu": 10.0}, None),
        ({200: Score(2.5, 9.0), 400: Score(2.5, 10.0)}, {"loss": 2.5, "bleu": 10.0},
         "BLEU 10.00 is not better than BLEU 10.00 of step-00000400"),
        ({200: Score(3.0, None), 400: Score(2.0, None)}, {"loss": 1.9, "bleu": None}, None),
        ({200: Score(3.0, None), 400: Score(2.0, None)}, {"loss": 2.1, "bleu": None},
         "loss 2.100 is not better than loss 2.000 of step-00000400"),
        # Of the last one's score nothing follows; nor of a loss beside BLEU.
        ({200: Score(2.5, 9.0), 400: Score(2.5, 5.0)}, {"loss": 2.0, "bleu": 8.0},
         "BLEU 8.00 is not better than BLEU 9.00 of step-00000200"),
        ({400: Score(2.0, None)}, {"loss": 1.9, "bleu": 9.0},
         "step-00000400 was not validated by the same measure"),
        ({}, {"loss": 1.9, "bleu": 9.0}, "step-00000400 was not validated by the same measure"),
        ({400: Score(2.5, 10.0)}, None, "it was not validated"),
    ],
)  # fmt: skip
def test_an_average_is_used_only_if_it_is_better_than_the_best_checkpoint(root, scores, validation, reason):
    run = make_run(root, "x", scores, updates=[200, 400])
    update_links(run, scores)
    best = (run / "best" if scores else run / "last").resolve()
    average = make_average(run, validation)
    expected = average if reason is None else best
    is_known = reason is None or "is not better than" in reason  # `nmt average-checkpoints` said so
    remarks = [] if is_known else [f"{average} is not used: {reason}"]
    assert models_to_use([run]) == ([expected], remarks)
    assert models_to_use([average]) == ([average], [])


def test_without_bleu_the_loss_is_told(root):
    run = make_run(root, "x", {5: Score(1.25, None)}, updates=[5])
    assert "(update 5, loss 1.250)" in describe_model(RunFolder(run).checkpoint(5))


def test_a_bundle_that_says_nothing_of_itself_is_its_path(tmp_path):
    assert describe_model(tmp_path / "nothing") == str(tmp_path / "nothing")
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "notes.json").write_text('{"averaged": 3')
    (tmp_path / "training.json").write_text("[]")
    assert describe_model(tmp_path) == str(tmp_path)


def test_the_newest_run_with_a_model_is_taken_and_newer_ones_are_named(root):
    old = make_run(root, "old", updates=[1], hours_old=2)
    new = make_run(root, "new")
    assert newest_run(root) == new
    assert newest_trained_run(root) == (old, [f"{new} is newer, but has no checkpoint yet"])
    assert newest_trained_run(root, usable=has_checkpoints)[0] == old
    assert models_to_use([])[0] == [RunFolder(old.relative_to(root.parent)).checkpoint(1)]


@pytest.mark.parametrize("changed", ["config.yaml", "metrics.jsonl"])
def test_a_run_that_was_resumed_is_the_newest(root, changed):
    old, new = (make_run(root, name, hours_old=hours) for name, hours in (("old", 5), ("new", 2)))
    for run in (old, new):
        then = run.stat().st_mtime
        (run / "metrics.jsonl").touch()
        for path in (run / "metrics.jsonl", run):
            os.utime(path, (then, then))
    assert newest_run(root) == new
    (old / changed).touch()
    assert newest_run(root) == old


def test_runs_without_any_model_say_how_to_go_on(root):
    with pytest.raises(CheckpointError, match="Run `nmt train` first"):
        newest_trained_run(root)
    run = make_run(root, "only")
    with pytest.raises(CheckpointError, match=f"`nmt train --resume {run}`"):
        newest_trained_run(root)
