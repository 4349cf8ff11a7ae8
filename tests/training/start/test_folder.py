"""A fresh start: the next free name, made by one rank and known to all."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from nmt.checkpoint.run_folder import RUN, checkpoints
from nmt.errors import CheckpointError, DataError
from nmt.io.ownership import check_replaceable
from nmt.training.ranks.exchange import NO_OTHERS
from nmt.training.start.folder import run_folder


def claim(run, body=lambda folder: (folder / "config.yaml").touch()):
    with run_folder(run, NO_OTHERS, fresh=True) as folder:
        body(folder)
    return folder


def test_a_fresh_start_takes_the_next_free_name_beside_the_one_that_was_given(tmp_path):
    run = tmp_path / "some" / "run.a"
    assert [claim(run) for _ in range(3)] == [run, run.with_name("run.a-2"), run.with_name("run.a-3")]
    (run.with_name("run.a-4")).symlink_to("nowhere")
    assert claim(run) == run.with_name("run.a-5")


def test_without_fresh_the_folder_is_the_one_that_was_given_and_not_made(tmp_path):
    with run_folder(tmp_path / "run", NO_OTHERS, fresh=False) as folder:
        assert folder == tmp_path / "run"
    assert not folder.exists()


def test_a_folder_that_a_failed_start_leaves_empty_is_free_again(tmp_path):
    def fail(folder):
        raise DataError("no pair is left")

    with pytest.raises(DataError):
        claim(tmp_path / "run", fail)
    assert claim(tmp_path / "run") == tmp_path / "run"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_failed_start_leaves_no_new_folder_and_every_old_one(tmp_path, fresh):
    (tmp_path / "old").mkdir()
    for run in (tmp_path / "runs" / "run", tmp_path / "old"):
        with pytest.raises(DataError), run_folder(run, NO_OTHERS, fresh=fresh) as folder:
            folder.mkdir(parents=True, exist_ok=True)
            raise DataError("no pair is left")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_many_that_start_at_once_take_different_folders(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: claim(tmp_path / "run"), range(16)))
    assert len(set(folders)) == 16


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="--out"):
        claim(tmp_path / "file" / "run")


@pytest.mark.parametrize("launch", ["4f1", "none"])
def test_ranks_that_torchrun_starts_again_resume_the_folder_of_their_first_start(tmp_path, monkeypatch, launch):
    old = claim(tmp_path / "run")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", launch)
    own = claim(
        tmp_path / "run", lambda folder: check_replaceable(folder, RUN, in_place=True) or (folder / "x").touch()
    )
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "other")
    assert len({old, own, claim(tmp_path / "run")}) == 3
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", launch)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert claim(tmp_path / "run") == own
    assert claim(tmp_path / "other") == tmp_path / "other"


@pytest.mark.parametrize("launch", ["4f1", "none"])
def test_ranks_started_again_after_a_start_that_wrote_nothing_leave_the_old_run_alone(tmp_path, monkeypatch, launch):
    def fail(folder):
        raise DataError("no pair is left")

    monkeypatch.setattr("os.getppid", lambda: 1)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", launch)
    claim(tmp_path / "run")
    monkeypatch.setattr("os.getppid", lambda: 2)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none" if launch == "none" else "4f2")
    with pytest.raises(DataError):
        claim(tmp_path / "run", fail)
    assert [folder.name for folder in tmp_path.iterdir()] == ["run"]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert claim(tmp_path / "run") == tmp_path / "run-2"


def test_a_fresh_run_leaves_the_one_there_alone(run_training, tmp_path, listener):
    run = tmp_path / "run"
    run_training(run, "training.max_updates=5")
    outcome = run_training(run, "training.max_updates=7", "model.d_model=32", fresh=True)
    assert outcome.run == tmp_path / "run-2"
    assert f"run: {outcome.run} ({run} is taken)" in listener.notices
    assert (max(checkpoints(run)), max(checkpoints(outcome.run))) == (5, 7)


@pytest.mark.parametrize(
    "starter",
    [
        pytest.param(["-m", "nmt"], marks=pytest.mark.slow),
        pytest.param(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"], marks=pytest.mark.slow),
    ],
)
def test_all_ranks_of_a_fresh_start_take_one_folder(settings, tmp_path, reversed_words, starter):
    # With sampled subwords every rank reads from the run's folder, so that a rank with another one would wait for ever.
    path = settings("training.subword_sampling=0.1", "training.max_updates=3")
    own = ["--nproc", "2"] if starter == ["-m", "nmt"] else []
    command = ["train", "--data", str(reversed_words), "--config", str(path), "--out", str(tmp_path / "run"), "--fresh"]
    starter = starter if own else [*starter, "-m", "nmt"]
    for expected in ("run", "run-2"):
        result = subprocess.run(
            [sys.executable, *starter, *command, *own],
            capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert result.stderr.count(f"run: {tmp_path / expected}") == 1
        assert max(checkpoints(tmp_path / expected)) == 3
    assert sorted(path.name for path in tmp_path.glob("run*")) == ["run", "run-2"]
