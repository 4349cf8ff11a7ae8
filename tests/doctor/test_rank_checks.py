"""The doctor's checks of ranks pass on a machine that computes right, and notice ranks that fail."""

import re
import sys

import pytest

from nmt.doctor import rank_checks
from nmt.doctor.speeds import text_to_train_on
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.gradients import GradientBuffer
from nmt.training.ranks.exchange import NO_OTHERS
from nmt.training.start.setup import resolve_config


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return text_to_train_on(tmp_path_factory.mktemp("doctor") / "text")


@pytest.mark.slow  # tests/system/test_doctor.py does the same
def test_two_ranks_pass(data, tmp_path):
    [equal] = rank_checks.check_ranks(choose_hardware("cpu", "fp32", 1), data, tmp_path)
    assert equal.passed, equal.detail
    assert re.fullmatch(r"after 6 updates in fp64, weights differ by \S+; allowed 1e-09", equal.detail)


def test_the_gradients_of_the_checked_model_fill_several_buckets(data):
    settings = [f"{key}={value}" for key, value in rank_checks._SETTINGS.items()]
    config, _ = resolve_config([(data, 1.0)], preset="tiny", settings=settings)
    parameters = list(Transformer(config.model, config.data.vocab_size).double().parameters())
    buffer = GradientBuffer(parameters, 1, NO_OTHERS, bucket_bytes=config.training.bucket_megabytes * 1_000_000)
    assert len(buffer._buckets) > 3


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise SystemExit('no ranks here')", "ranks: 1: no ranks here"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import pathlib; raise SystemExit(f'no {pathlib.Path.home()}/x')", "ranks: 1: no ~/x"),
    ],
)
def test_ranks_that_fail_are_noticed(data, tmp_path, monkeypatch, program, says):
    monkeypatch.setattr(rank_checks, "_command", lambda *arguments, **options: [sys.executable, "-c", program])
    [equal] = rank_checks.check_ranks(choose_hardware("cpu", "fp32", 1), data, tmp_path)
    assert not equal.passed and says in equal.detail


def test_ranks_that_hang_are_noticed(data, tmp_path, monkeypatch):
    program = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(rank_checks, "_command", lambda *arguments, **options: program)
    monkeypatch.setattr(rank_checks, "_SECONDS", 0.2)
    [equal] = rank_checks.check_ranks(choose_hardware("cpu", "fp32", 1), data, tmp_path)
    assert (equal.passed, equal.detail) == (False, "ranks: 1: not finished within 0 s")
