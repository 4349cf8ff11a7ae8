"""Which checkpoints are kept, and which one is used."""

import os
from math import nan
from pathlib import Path

import pytest

from nmt.checkpoint.run_folder import (
    RunFolder,
    bundle_to_use,
    checkpoints,
    chosen_bundle,
    is_run,
    kept,
    latest_intact_checkpoint,
    newest_run,
    prune,
    set_aside_damaged,
    update_links,
)
from nmt.checkpoint.scores import Score, best_updates
from nmt.config import CheckpointsConfig
from nmt.errors import CheckpointError


def settings(**values) -> CheckpointsConfig:
    return CheckpointsConfig(**values)


def of_bleu(bleu: dict[int, float]) -> dict[int, Score]:
    """Scores of equal loss."""
    return {update: Score(2.5, value) for update, value in bleu.items()}


def test_the_best_are_kept_by_score():
    scores = of_bleu({100: 2.0, 200: 6.0, 300: 4.0})
    assert kept([100, 200, 300, 400], scores, settings(keep_last=1, keep_best=2)) == {200, 300, 400}


def test_a_score_without_a_checkpoint_takes_no_place_among_the_best():
    scores = of_bleu({100: 9.0, 200: 6.0, 300: 4.0, 400: 1.0})
    assert kept([200, 300, 400, 500], scores, settings(keep_last=1, keep_best=2)) == {200, 300, 500}


@pytest.mark.parametrize("losses", [(nan, 5.0, 3.0), (5.0, nan, 3.0), (3.0, 5.0, nan)])
def test_a_loss_that_is_not_a_number_is_never_the_best(tmp_path, losses):
    best, scores = losses.index(3.0) + 1, {update: Score(loss, None) for update, loss in enumerate(losses, start=1)}
    assert kept([1, 2, 3, 4], scores, settings(keep_last=1, keep_best=1)) == {best, 4}
    for update in scores:
        fake(tmp_path, update)
    update_links(tmp_path, scores)
    assert (tmp_path / "best").resolve() == RunFolder(tmp_path).checkpoint(best)


def test_of_equal_scores_the_earlier_is_kept():
    assert kept([1, 2, 3], of_bleu({1: 5.0, 2: 5.0, 3: 1.0}), settings(keep_last=1, keep_best=1)) == {1, 3}


@pytest.mark.parametrize("bleu", [(5.0, 5.0), (0.19, 0.0), (None, None), (0.2, 1.0), (4.9, 5.0)])
def test_the_loss_decides_where_bleu_does_not(bleu):
    """BLEU of a model that has hardly begun to learn says nothing."""
    earlier, later = Score(5.0, bleu[0]), Score(4.0, bleu[1])
    assert best_updates({1: earlier, 2: later}, 2) == [2, 1]
    assert best_updates({1: Score(4.0, 1.01), 2: Score(3.0, 0.9)}, 2) == [1, 2]


def test_the_last_and_every_nth_are_kept():
    assert kept(range(100, 1100, 100), {}, settings(keep_last=2, keep_best=1, keep_every=400)) == {400, 800, 900, 1000}


def fake(run: Path, update: int) -> Path:
    folder = RunFolder(run).checkpoint(update)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    return folder


def test_checkpoints_are_in_the_order_of_their_updates_not_of_their_names(tmp_path):
    for update in (5, 1_000_000_000, 99_999_999, 20, 100_000_000):  # the last ones outgrow the eight digits
        fake(tmp_path, update)
    assert list(checkpoints(tmp_path)) == [5, 20, 99_999_999, 100_000_000, 1_000_000_000]


def test_the_newest_whole_checkpoint_is_resumed_from_and_damaged_newer_ones_are_set_aside(tmp_path):
    assert latest_intact_checkpoint(tmp_path) == (None, [])
    for update in (1, 3):
        folder = fake(tmp_path, update)
        (folder / "config.yaml").touch()
        (folder / "vocab.model").touch()
    (folder / "checksums.json").write_text('{"vocab.model": "another"}')
    (fake(tmp_path, 2) / "config.yaml").touch()
    path, problems = latest_intact_checkpoint(tmp_path)
    assert path == RunFolder(tmp_path).checkpoint(1)
    differs, missing = problems
    assert differs.startswith(f"{folder / 'vocab.model'} is damaged: ")
    assert missing == f"{RunFolder(tmp_path).checkpoint(2)} is not a complete bundle: vocab.model is missing."

    (path / "vocab.model").unlink()
    with pytest.raises(CheckpointError) as error:
        latest_intact_checkpoint(tmp_path)
    first, *each, advice = str(error.value).splitlines()
    assert first == f"{tmp_path}: every checkpoint is damaged:"
    assert each == [differs, missing, f"{path} is not a complete bundle: vocab.model is missing."]
    assert "--fresh" in advice

    set_aside_damaged(tmp_path, newer_than=path)
    assert list(checkpoints(tmp_path)) == [1]
    left = sorted(entry.name for entry in (tmp_path / "checkpoints").iterdir())
    assert left == ["damaged-step-00000002", "damaged-step-00000003", "step-00000001"]


def test_links_lead_to_the_last_and_the_best_that_are_there(tmp_path):
    for update in (1, 2, 3):
        fake(tmp_path, update)
    update_links(tmp_path, of_bleu({1: 3.0, 2: 9.0, 3: 4.0}))
    assert (tmp_path / "last").resolve() == RunFolder(tmp_path).checkpoint(3)
    assert (tmp_path / "best").resolve() == RunFolder(tmp_path).checkpoint(2)


def test_pruning_deletes_what_is_not_kept_and_what_a_crash_left(tmp_path):
    for update in (1, 2, 3):
        fake(tmp_path, update)
    (tmp_path / "checkpoints" / ".step-00000004.17.tmp").mkdir()
    prune(tmp_path, of_bleu({1: 1.0}), settings(keep_last=1, keep_best=1))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000001", "step-00000003"]


def test_pruning_leaves_a_checkpoint_that_lies_elsewhere(tmp_path):
    elsewhere = tmp_path / "other disk"
    elsewhere.mkdir()
    (elsewhere / "training.json").touch()
    folder = tmp_path / "run"
    RunFolder(folder).checkpoint(2).mkdir(parents=True)
    RunFolder(folder).checkpoint(1).symlink_to(elsewhere)
    prune(folder, {}, CheckpointsConfig(keep_last=1, keep_best=1))
    assert list(checkpoints(folder)) == [1, 2]
    assert (elsewhere / "training.json").exists()


def test_translate_takes_a_better_average_unless_checkpoints_are_newer(tmp_path):
    fake(tmp_path, 1)
    best = fake(tmp_path, 2)
    (best / "training.json").write_text('{"scores": {"2": {"loss": 2.5, "bleu": 1.0}}}')
    update_links(tmp_path, of_bleu({2: 1.0}))
    assert chosen_bundle(tmp_path) == (best, None)
    average = tmp_path / "average"
    average.mkdir()
    (average / "model.safetensors").touch()
    (average / "notes.json").write_text(
        '{"record": {"kind": "average", "path": "a"}, "validation": {"loss": 2.0, "bleu": 1.5}}'
    )
    assert chosen_bundle(tmp_path) == (average, None)
    newer = fake(tmp_path, 3)
    os.utime(newer, (average.stat().st_mtime + 10,) * 2)
    assert chosen_bundle(tmp_path) == (best, f"{average} is not used: checkpoints are newer")
    assert bundle_to_use(best) == best
    for folder in ("checkpoints", "best", "last"):
        (tmp_path / folder).rename(tmp_path / f"away-{folder}")
    assert chosen_bundle(tmp_path) == (average, None)


def test_the_best_checkpoint_is_named_as_the_run_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("runs") / "mine"
    fake(run, 1), fake(run, 2)
    update_links(run, of_bleu({1: 2.0, 2: 1.0}))
    assert str(bundle_to_use(run)) == "runs/mine/checkpoints/step-00000001"
    (run / "best").unlink()
    (run / "best").symlink_to(fake(tmp_path / "elsewhere", 5))
    assert bundle_to_use(run) == tmp_path / "elsewhere/checkpoints/step-00000005"


def test_what_is_not_there_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="nmt train"):
        newest_run(tmp_path)
    with pytest.raises(CheckpointError, match="no such"):
        bundle_to_use(tmp_path / "nothing")
    with pytest.raises(CheckpointError, match="neither a bundle nor a run"):
        bundle_to_use(tmp_path)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({".nmt": ""}, True),
        ({".nmt": "", "metrics.jsonl": '{"kind": "sta'}, True),
        ({"metrics.jsonl": '{"kind": "start", "update": 0}\n'}, True),  # a copy without hidden files
        ({"metrics.jsonl": '{"loss": 3.5}\n', "config.yaml": "model: mine"}, False),
        ({"metrics.jsonl": ""}, False),
        ({"config.yaml": "model: mine"}, False),
        ({"data.json": "[]"}, False),
        ({}, False),
    ],
)
def test_a_run_is_known_by_its_mark_or_by_what_it_wrote(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert is_run(tmp_path) == expected
