"""``nmt train --resume`` and ``--fresh --out``, as a person types them."""

import re
import shutil

import pytest


@pytest.fixture
def project(trained, tmp_path):
    shutil.copytree(trained / "data", tmp_path / "data")
    shutil.copytree(trained / "runs", tmp_path / "runs", symlinks=True)
    return tmp_path


def test_a_run_is_resumed_by_its_folder_alone(project, nmt_apart):
    run = "runs/toy-en-de-tiny"
    again = nmt_apart("train", "--resume", run, cwd=project)
    assert f"Nothing to do: {run} is finished (update 60: max_updates reached)." in again.stderr
    resumed = nmt_apart("train", "--resume", run, "--max-updates", "62", cwd=project)
    assert "data: data/toy-en-de (of the run)" in resumed.stderr
    assert f"Resuming from {run}/checkpoints/step-00000060." in resumed.stderr
    assert "Changed since the run started: training.max_updates: 60 -> 62." in resumed.stderr
    assert resumed.stderr.endswith("Finished at update 62: max_updates reached.\n")
    translated = nmt_apart("translate", cwd=project, text="The man sleeps.\n")
    assert re.search(r"\(en-de, update 6[02], BLEU \d+\.\d\d\)", translated.stderr)  # the best of them


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "docs"], "docs: holds notes, and is not a run"),
        (["--out", "docs/notes"], "docs/notes: is a file, but a run is a folder"),
        (["--out", "docs/notes/run"], "docs/notes/run: cannot be written (docs/notes is a file)"),
        (["--set", "model.dropout=0.3"], "runs/toy-en-de-tiny was started with other settings"),
    ],
)
def test_what_is_refused_is_refused_before_anything_is_printed_about_the_run(project, nmt, options, message):
    (project / "docs").mkdir()
    (project / "docs" / "notes").write_text("mine")
    failed = nmt("train", *options, cwd=project, check=False)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert "parameters" not in failed.stderr
    assert "hardware" not in failed.stderr
