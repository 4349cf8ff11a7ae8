"""The order of an examination, and what happens when a part of it fails."""

import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from nmt.doctor import examination
from nmt.doctor.checks import Check
from nmt.doctor.examination import examine
from nmt.doctor.findings import warnings
from nmt.doctor.page import examination_page
from nmt.doctor.rates import ProductRate
from nmt.doctor.speeds import TrainingSpeed, TranslatingSpeed
from nmt.doctor.steps import Steps
from nmt.errors import ConfigError
from nmt.machine.device import choose_hardware
from tests.doctor.conftest import measure_nothing


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """Parts that take no time; each call of a speed is noted."""
    calls = []
    measure_nothing(monkeypatch)
    monkeypatch.setattr(examination, "product_rates", lambda hardware: [ProductRate(p, 256, 1, 1e9) for p in PRODUCTS])
    monkeypatch.setattr(examination, "all_checks", lambda *arguments: [("this", lambda: [Check("this", True, "")])])
    monkeypatch.setattr(examination, "hardware_of_preset", lambda preset: choose_hardware("cpu", "fp32", 1))

    def training(data, preset, precision, *, compiled=False):
        calls.append((preset, precision))
        return TrainingSpeed(preset, precision, 100.0, 0.5)

    def translating(data, scratch, hardware, products):
        calls.append(("translating", hardware.precision))
        return [TranslatingSpeed("nmt fp32", "fp32", 1.0, 1.0, 1.0, 1, 0.5)]

    monkeypatch.setattr(examination, "training_speed", training)
    monkeypatch.setattr(examination, "translating_speeds", translating)
    return calls


PRODUCTS = ("fp32", "bf16", "int8")


def test_each_preset_is_trained_and_small_in_every_precision(parts):
    found = examine()
    assert {preset for preset, _ in parts} == {"tiny", "small", "base", "translating"}
    assert {precision for preset, precision in parts if preset == "small"} == {"fp32", "bf16"}
    assert [preset for preset, _ in parts[:2]] == ["base", "translating"]
    assert found.left_out == []
    assert found.passed
    assert found.values()["choices"][0]["measured"].keys() == {"fp32", "bf16"}


def test_without_speeds_nothing_is_trained(parts):
    found = examine(with_speeds=False)
    assert parts == []
    assert found.training == found.translating == []


def test_emulated_bf16_is_not_trained(parts, monkeypatch):
    monkeypatch.setattr(examination, "product_rates", lambda hardware: [ProductRate("fp32", 256, 1, 1e9)])
    examine()
    assert {precision for preset, precision in parts if preset == "small"} == {"fp32"}


def fail(*arguments, **options):
    raise RuntimeError(f"no kernel image in {sys.executable} of {Path.home()}/x and {tempfile.gettempdir()}/y")


REASON = "RuntimeError: no kernel image in python of ~/x and TMPDIR/y"


def test_a_check_that_fails_with_an_error_is_a_finding(parts, monkeypatch):
    """It names no path of the user's, and the other checks of its group are done."""
    passed = [("that", lambda: [Check("that", True, "")])]
    monkeypatch.setattr(examination, "all_checks", lambda hardware: [("this", fail), *passed])
    monkeypatch.setattr(examination, "gpu_checks", lambda hardware: [("a GPU", fail), ("its rows", passed[0][1])])
    monkeypatch.setattr(examination, "check_ranks", fail)
    found = examine(with_speeds=False)
    assert [(check.name, check.passed) for check in found.checks] == [
        ("this", False), ("that", True), ("a GPU", False), ("that", True), ("ranks", False)
    ]  # fmt: skip
    assert {check.detail for check in found.checks if not check.passed} == {REASON}
    assert found.left_out == []
    assert not found.passed


@pytest.mark.parametrize(
    ("part", "subject"),
    {
        "product_rates": "the rate of matrix products", "memory_bandwidth": "the bandwidth of memory",
        "text_to_train_on": "text to train on", "exchange_rates": "the exchange between ranks",
        "translating_speeds": "translating, base",
    }.items(),
)  # fmt: skip
def test_a_measurement_that_fails_is_left_out(parts, monkeypatch, part, subject):
    """As on a GPU whose memory is full. The page is written all the same."""
    monkeypatch.setattr(examination, part, fail)
    found = examine()
    assert found.left_out == [f"{subject}: {REASON}"]
    assert found.passed
    assert f"left out: {subject}: {REASON}" in warnings(found)
    assert "<h1>" in examination_page(found)
    assert (parts == []) is (part == "text_to_train_on")


def endless() -> list[str]:
    """A step that takes its errors for its own, and hangs."""
    try:
        subprocess.run(["sleep", "60"], check=True)
    except Exception:
        return ["never"]
    finally:
        ENDED.append(True)
    return ["never"]


ENDED = []


def test_a_step_ends_with_its_share_of_the_time():
    reported = []
    steps = Steps(20.0, reported.append)
    assert steps.do("the first", 0.07, endless, ["nothing"]) == ["nothing"]
    assert ENDED == [True]
    assert steps.left_out == ["the first: not finished within its share of the time, 1 s"]
    assert steps.do("the second", 0.5, lambda: ["it"], ["nothing"]) == ["it"]
    assert reported[0] == "the first  [at most 20 s left]"
    spent = Steps(0.0, reported.append)
    assert spent.do("the third", 1.0, lambda: ["it"], ["nothing"]) == ["nothing"]
    assert spent.left_out == ["the third: no time was left"]


def test_ctrl_c_ends_the_examination():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Steps(60.0, print).do("the first", 0.5, interrupted, [])


def test_processes_that_a_launcher_started_examine_nothing(parts, monkeypatch):
    """They would measure each other, and write to the same files."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"Run it once, without torchrun\."):
        examine(report=parts.append)
    assert parts == []


def test_a_share_is_that_of_the_time_that_is_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("nmt.doctor.steps.time.monotonic", lambda: now[0])
    limits = []
    monkeypatch.setattr("nmt.doctor.steps._limited", lambda seconds: limits.append(seconds) or nullcontext())
    steps = Steps(60.0, lambda line: None)
    for passed in (0.0, 40.0, 59.5):
        now[0] = 100.0 + passed
        steps.do("a step", 0.5, list, [])
    assert limits == [30.0, 10.0]
    assert steps.left_out == ["a step: no time was left"]
