"""Whole runs on a fake GPU: preflight, training, validation, checkpoints, resuming; then translating and scoring."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from nmt.doctor.checks import check_attention, check_gradients, check_steps
from nmt.doctor.gpu_checks import check_sentence_attention
from nmt.machine.device import choose_hardware
from nmt.training.run import rehearse
from nmt.translation.attention_maps import attention_maps
from nmt.translation.ensemble import load_ensemble
from nmt.translation.options import TranslateOptions
from nmt.translation.target_scorer import TargetScorer
from nmt.translation.translator import Translator
from tests.training.conftest import (  # noqa: F401 - fixtures
    assert_same,
    listener,
    reversed_words,
    run_training,
    saved,
    settings_file,
    settled,
)

ON_GPU = ["training.device=cuda", "model.dropout=0", "batching.micro_batch_tokens=auto", "training.max_updates=10"]
LINES = ["ba do ki", "", "lu me no pa ru", "ti"]


@pytest.fixture(autouse=True)
def own_choices():
    """torch's choice of kernels as it was before."""
    yield
    torch.use_deterministic_algorithms(False)


def losses(run: Path) -> list[float]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record[key] for record in records for key in ("loss", "valid_loss") if key in record]


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_a_run_learns_what_it_learns_on_a_cpu(gpu, run_training, tmp_path, precision):  # noqa: F811
    changes = [*ON_GPU, f"training.precision={precision}"]
    run_training(tmp_path / "gpu", *changes)
    run_training(tmp_path / "cpu", *changes, "training.device=cpu")
    assert losses(tmp_path / "gpu") == pytest.approx(
        losses(tmp_path / "cpu"), rel=1e-3 if precision == "fp32" else 0.05
    )


@pytest.mark.parametrize("changes", [[], ["training.deterministic=true"], ["training.ema_decay=0.9"]], ids=str)
def test_a_run_that_resumes_ends_as_one_that_does_not(gpu, run_training, tmp_path, changes):  # noqa: F811
    changes = [*ON_GPU, "training.precision=bf16", *changes]
    run_training(tmp_path / "straight", *changes)
    run_training(tmp_path / "stopped", *changes, "training.max_updates=5")
    run_training(tmp_path / "stopped", *changes)
    assert_same(saved(tmp_path / "stopped", 10), saved(tmp_path / "straight", 10))


def test_the_host_waits_once_per_update(gpu, run_training, listener, tmp_path):  # noqa: F811
    waits = []
    listener.at_update = lambda update: waits.append(len(gpu.waits))
    run_training(tmp_path / "run", *ON_GPU, "checkpoints.every_updates=10")
    assert np.diff(waits).tolist() == [1] * 9
    assert gpu.unpinned == []


def test_a_dry_run(gpu, settled, reversed_words, tmp_path):  # noqa: F811
    found = rehearse([reversed_words], tmp_path / "run", settled(*ON_GPU))
    assert found.micro_batch_tokens > 0
    assert 0 < found.memory_bytes < found.memory_for_use


@pytest.mark.parametrize("precision", ["bf16", "fp32", pytest.param("fp16", marks=pytest.mark.slow)])
def test_translating_and_scoring(gpu, run_training, tmp_path, precision):  # noqa: F811
    run_training(tmp_path / "run", "training.max_updates=5")
    texts, scores = [], []
    for device in ("cuda", "cpu"):
        hardware = choose_hardware(device, precision, 1)
        ensemble = load_ensemble([tmp_path / "run" / "last"], hardware)
        search = TranslateOptions(beam=4, max_extra_length=6, alignment=True)
        translator = Translator(ensemble, search)
        texts.append([found.text for found in translator.translate(LINES)])
        [scored] = TargetScorer(ensemble, search).score_windows(zip(LINES, LINES, strict=True))
        scores.append([found.score for found in scored])
        attention_maps(ensemble, ["ba do ki"], None, search, model="the run")
    assert precision != "fp32" or texts[0] == texts[1]
    assert scores[0] == pytest.approx(scores[1], rel=1e-4 if precision == "fp32" else 0.1)


def test_checks_of_the_doctor(gpu):
    hardware = choose_hardware("cuda", "bf16", 1)
    checks = [
        *check_sentence_attention(hardware), *check_attention(hardware), *check_gradients(hardware),
        *check_steps(hardware),
    ]  # fmt: skip
    assert [check.name for check in checks if not check.passed] == []
