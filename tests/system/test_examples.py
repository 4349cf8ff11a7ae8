"""The scripts under examples/ run, at reduced size."""

import importlib
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.data.batching import Batch
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.learner import Learner
from tests.commands import ForkedPython, run_command

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_tutorial_from_python(trained, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for language in ("en", "de"):
        lines = (trained / "data" / "toy-en-de" / f"test.{language}").read_text("utf-8").splitlines(keepends=True)
        (data / f"test.{language}").write_text("".join(lines[:6]), "utf-8")
    run = trained / "runs" / "toy-en-de-tiny"
    copy = tmp_path / "copy"
    shutil.copytree(run / "last", copy)
    words = [str(word) for word in (EXAMPLES / "python-api" / "tutorial.py", data, run, copy)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = ForkedPython(words, str(tmp_path), dict(os.environ), **pipes)
    output, errors = (stream.decode() for stream in process.communicate())
    assert process.returncode == 0, errors
    assert output.count("BLEU = ") == 4
    assert output.count("p = ") == 2  # the second run, and both together
    assert "Least likely references:" in output


@pytest.mark.slow
def test_the_quick_start_goes_from_nothing_to_a_score_and_goes_on_where_it_was(tmp_path):
    """As `make demo`, with a short training."""
    short = "--max-updates 60 --set checkpoints.every_updates=20 --set schedule.warmup=60"
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nmt").write_text(
        f'#!/bin/sh\n[ "$1" = train ] && set -- "$@" {short}\nexec {sys.executable} -m nmt "$@"\n'
    )
    (programs / "nmt").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    for _ in range(2):
        result = subprocess.run(
            ["sh", EXAMPLES / "quickstart" / "run.sh"],
            cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert "BLEU = " in result.stdout
        assert f"| {programs}/nmt translate\n" in result.stdout
    assert "Nothing to do: runs/toy-en-de-tiny is finished" in result.stderr


@pytest.mark.slow
def test_a_student_is_made_of_pairs_and_text_in_one_language_and_nothing_is_done_twice(trained, tmp_path):
    """With few pairs, short trainings, and a kill in the middle."""
    short = "--max-updates 100 --set checkpoints.every_updates=50 --set validation.every_updates=50"
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nmt").write_text(
        f'#!/bin/sh\necho "nmt $1" >> {tmp_path}/commands\n[ "$1" = train ] && set -- "$@" {short}\n'
        f'[ -e {tmp_path}/stop ] && [ "$(wc -l < {tmp_path}/commands)" = 9 ] && exit 1\n'
        f'exec {sys.executable} -m nmt "$@"\n'
    )
    (programs / "nmt").chmod(0o755)
    made = tmp_path / "student"
    made.mkdir()
    for split, count in (("train", 1_000), ("valid", 50), ("test", 50)):
        for language in ("en", "de"):
            lines = (trained / "data" / "toy-en-de" / f"{split}.{language}").read_text().splitlines(keepends=True)
            (tmp_path / f"{split}.{language}").write_text("".join(lines[:count]))
    texts = [word for split in ("train", "valid", "test") for word in (f"--{split}", tmp_path / split)]
    assert run_command(["prepare-data", "mini-en-de", *texts], cwd=made).returncode == 0
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    command = ["sh", EXAMPLES / "student" / "run.sh", "mini-en-de", "tiny"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    (tmp_path / "stop").touch()
    assert run().returncode == 1
    (tmp_path / "stop").unlink()
    result = run()
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("BLEU") >= 2
    assert "in capitals" in result.stdout
    manifests = [json.loads(path.read_bytes()) for path in (made / "data").glob("*/manifest.json")]
    assert {each["name"]: each["tag"] for each in manifests} == {
        "mini-en-de": "", "real-de-en": "", "real-en-de": "", "bt-en-de": "BT", "kd-en-de": "",
    }  # fmt: skip
    sizes = [(made / "runs" / name / "best" / "model.safetensors").stat().st_size for name in ("teacher", "student")]
    assert sizes[1] < sizes[0]
    files = {path: path.stat().st_mtime_ns for path in made.rglob("*.safetensors")}
    assert run().returncode == 0
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*.safetensors")} == files


@pytest.fixture(scope="module")
def of_sweep():
    """Imports a module of the sweeps, which are no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES / "sweep")
        yield importlib.import_module


def test_the_models_of_table_3_have_the_papers_sizes(of_sweep):
    sweep = of_sweep("definition").Sweep.read(EXAMPLES / "table3" / "base.yaml")
    counted = {row.name: row for row in sweep.rows if row.paper.parameters is not None}
    assert len(sweep.rows) == 20
    assert len(counted) == 11
    for row in counted.values():
        ours = of_sweep("cost").parameters(sweep.config(row).model, vocab_size=41_000) / 1e6
        assert ours == pytest.approx(row.paper.parameters, rel=0.03), row.name


def test_the_small_models_of_table_3_are_those_of_the_paper_in_its_order(of_sweep):
    base, small = (
        of_sweep("definition").Sweep.read(EXAMPLES / "table3" / f"{size}.yaml").rows for size in ("base", "small")
    )
    assert [(row.paper.perplexity, row.paper.bleu) for row in base] == [
        (row.paper.perplexity, row.paper.bleu) for row in small
    ]
    assert [row.settings.keys() - {"training.max_updates"} for row in base] == [row.settings.keys() for row in small]


@pytest.mark.slow
def test_every_row_of_table_3_learns(of_sweep):
    sweep = of_sweep("definition").Sweep.read(EXAMPLES / "table3" / "small.yaml")
    source, target_input, target_output = np.random.default_rng(1).integers(4, 50, (3, 8, 6))
    batch = Batch(source.ravel(), target_input.ravel(), target_output.ravel(), np.full(8, 6), np.full(8, 6))
    hardware = choose_hardware("cpu", "fp32", 1)
    for row in sweep.rows:
        config = sweep.config(row)
        torch.manual_seed(0)
        learner = Learner(accelerate(Transformer(config.model, 50), choose_kernels(hardware.device)), config, hardware)
        first, *_, last = (
            learner.update([batch], update=update, target_tokens=48, learning_rate=1e-3) for update in range(1, 6)
        )
        assert math.isfinite(last.cross_entropy), row.name
        assert last.cross_entropy < first.cross_entropy, row.name


@pytest.mark.slow
def test_a_sweep_fills_its_table_and_runs_nothing_twice(trained, tmp_path):
    (tmp_path / "heads.yaml").write_text(
        "title: Heads\npreset: tiny\nsettings: {training.max_updates: 4, model.d_model: 32, model.d_ff: 32}\n"
        "rows:\n- {name: base, paper: {bleu: 25.8}}\n- {name: one head, settings: {model.heads: 1}}\n"
    )

    def sweep(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, EXAMPLES / "sweep", *words],
            capture_output=True, text=True, encoding="utf-8", cwd=tmp_path, check=False,
        )  # fmt: skip

    run = ("run", "heads.yaml", "--out", "out", "--data", str(trained / "data" / "toy-en-de"))
    first, again = sweep(*run), sweep(*run)
    assert first.returncode == again.returncode == 0, first.stderr
    assert first.stderr.count("started") == 2
    assert again.stderr.count("scored already") == 2
    assert "started" not in again.stderr
    translated = json.loads((tmp_path / "out/base-seed-1/.valid.step-00000004.de.nmt.json").read_text())["record"]
    assert {"--split-sentences=never", "--no-copy-unknown", "--no-guard", "--refill-beam"} <= set(translated["command"])
    table = [line.split("|") for line in first.stdout.splitlines() if line.startswith(("| base", "| one head"))]
    assert [len(cells) for cells in table] == [11, 11]
    assert [cells[9].strip() for cells in table] == ["1", "1"]
    assert first.stdout == again.stdout
    assert sweep("table", "heads.yaml", "--out", "out", "--page", "table.html").returncode == 0
    assert (tmp_path / "table.html").read_text("utf-8").count("<tr>") == 3
    (tmp_path / "mine.html").write_text("mine")
    assert sweep("table", "heads.yaml", "--out", "out", "--page", "mine.html").returncode == 2
    assert (tmp_path / "mine.html").read_text() == "mine"
    refused = sweep(*run, "--set", "model.width=3")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: ")
    assert "base: unknown setting 'model.width'" in refused.stderr


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("NMT_TEST_DATA"), reason="NMT_TEST_DATA names no folder of real text")
def test_multi30k_from_the_archives_to_the_score(tmp_path):
    mirror = Path(os.environ["NMT_TEST_DATA"]) / "multi30k-en-de"
    fetched = run_command(["prepare-data", "multi30k-en-de", "--mirror", mirror], cwd=tmp_path)
    assert fetched.returncode == 0, fetched.stderr.decode()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["sh", EXAMPLES / "multi30k" / "run.sh", "0.2"], cwd=tmp_path, env=os.environ | {"PATH": path},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\nBLEU = ") + result.stdout.startswith("BLEU = ") == 2
    assert "case:lc" in result.stdout


@pytest.mark.slow
def test_exports_are_translated_beside_their_model(trained, tmp_path):
    text = [trained / "data" / "toy-en-de" / f"test.{language}" for language in ("en", "de")]
    command = ["sh", EXAMPLES / "exports" / "run.sh", trained / "runs" / "toy-en-de-tiny", *text]
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert result.returncode == 0, result.stderr
    rows = {row["software"]: row for row in map(json.loads, result.stdout.splitlines())}
    written = {folder.name for folder in (tmp_path / "exports").iterdir() if folder.is_dir()}
    assert rows.keys() == {"nmt", *written}
    assert len(written) + result.stderr.count("left out: ") == 3
    assert {(row["bleu"], row["lines that differ"]) for row in rows.values()} == {(rows["nmt"]["bleu"], 0)}
