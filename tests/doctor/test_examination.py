"""The order of an examination, and what happens when a part of it fails."""

import sys
import tempfile
from pathlib import Path

import pytest

from nmt.doctor import examination
from nmt.doctor.checks import Check
from nmt.doctor.examination import examine
from nmt.doctor.findings import tables, warnings
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
        return TrainingSpeed(preset, precision, 100.0)

    def translating(data, scratch, hardware, products):
        calls.append(("translating", hardware.precision))
        return [TranslatingSpeed("nmt fp32", "fp32", 1.0, 1.0, 1.0, 1)]

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
        "text_to_train_on": "text to train on", "translating_speeds": "translating, base",
    }.items(),
)  # fmt: skip
def test_a_measurement_that_fails_is_left_out(parts, monkeypatch, part, subject):
    """As on a GPU whose memory is full. The rest is found all the same."""
    monkeypatch.setattr(examination, part, fail)
    found = examine()
    assert found.left_out == [f"{subject}: {REASON}"]
    assert found.passed
    assert f"left out: {subject}: {REASON}" in warnings(found)
    assert "Machine" in [table.title for table in tables(found)]
    assert (parts == []) is (part == "text_to_train_on")


def test_no_step_begins_when_the_time_is_up():
    reported = []
    steps = Steps(60.0, reported.append)
    assert steps.do("the first", lambda: ["it"], ["nothing"]) == ["it"]
    spent = Steps(-1.0, reported.append)
    assert spent.do("the second", lambda: ["it"], ["nothing"]) == ["nothing"]
    assert (spent.left_out, reported) == (["the second: no time was left"], ["the first", "the second"])


def test_ctrl_c_ends_the_examination():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Steps(60.0, print).do("the first", interrupted, [])


def test_processes_that_a_launcher_started_examine_nothing(parts, monkeypatch):
    """They would measure each other, and write to the same files."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"Run it once, without torchrun\."):
        examine(report=parts.append)
    assert parts == []
