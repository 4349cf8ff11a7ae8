"""The order of an examination, and what happens when a part of it fails."""

from types import SimpleNamespace

import pytest

from nmt.doctor import examination
from nmt.doctor.checks import Check
from nmt.doctor.examination import examine
from nmt.doctor.rates import ProductRate
from nmt.doctor.speeds import TrainingSpeed, TranslatingSpeed
from nmt.errors import ConfigError, NmtError


@pytest.fixture
def parts(monkeypatch, tmp_path):
    """Parts that take no time; each call of a speed is noted."""
    calls = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(examination, "product_rates", lambda hardware: [ProductRate(p, 256, 1, 1e9) for p in PRODUCTS])
    monkeypatch.setattr(examination, "memory_bandwidth", lambda hardware: 1e9)
    for name in ("training_attention_seconds", "search_attention_seconds"):
        monkeypatch.setattr(examination, name, lambda hardware: {"plain": 1.0, "two products": 0.5})
    monkeypatch.setattr(examination, "all_checks", lambda *arguments: [("this", lambda: [Check("this", True, "")])])
    monkeypatch.setattr(examination, "check_ranks", lambda *arguments: [])

    def training(data, preset, precision, against=None):
        calls.append((preset, precision, against))
        return [TrainingSpeed("nmt", preset, precision, 100.0, 0.5)]

    def translating(data, scratch, hardware, products, report, peers=None):
        calls.append(("translating", peers))
        return [TranslatingSpeed("nmt fp32", "fp32", 1.0, 1.0, 1.0, 1, 0.5)]

    monkeypatch.setattr(examination, "scaling_speeds", lambda data, numbers, left_out: [])
    monkeypatch.setattr(examination, "training_speed", training)
    monkeypatch.setattr(examination, "translating_speeds", translating)
    return calls


PRODUCTS = ("fp32", "bf16", "int8")


def test_each_preset_is_trained_and_small_in_every_precision(parts):
    found = examine(peers=["ctranslate2", "transformers"])
    assert {preset for preset, *_ in parts} == {"tiny", "small", "base", "translating"}
    assert {precision for preset, precision, *_ in parts if preset == "small"} == {"fp32", "bf16"}
    [(_, _, against)] = [call for call in parts if call[0] == "base"]
    assert against == "transformers"
    assert parts[-1] == ("translating", ("ctranslate2", "transformers"))
    assert found.left_out == []
    assert found.passed
    assert found.values()["choices"][0]["measured"].keys() == {"fp32", "bf16"}


def test_without_speeds_nothing_is_trained(parts):
    found = examine(with_speeds=False)
    assert parts == []
    assert found.training == found.translating == []


def test_emulated_bf16_is_not_trained(parts, monkeypatch):
    monkeypatch.setattr(examination, "product_rates", lambda hardware: [ProductRate("fp32", 256, 1, 1e9)])
    monkeypatch.setattr("nmt.device.bf16_speedup", lambda *sizes: 0.1)
    monkeypatch.setattr(examination, "bf16_speedup", examination.fastest_int8_product)  # only emptied
    examine()
    assert {precision for preset, precision, *_ in parts if preset == "small"} == {"fp32"}


def test_peers_are_left_out_of_a_slow_examination(parts, monkeypatch):
    monkeypatch.setattr(examination, "_SECONDS_BEFORE_PEERS", 0.0)
    found = examine(peers=["transformers"])
    assert found.left_out == ["transformers: this machine is too slow to measure them within five minutes"]
    assert parts[-1] == ("translating", None)


def test_the_time_on_several_gpus_leaves_peers_in(parts, monkeypatch):
    clock = [0.0]

    def scaling(data, hardware, report, left_out):
        clock[0] += 10 * examination._SECONDS_BEFORE_PEERS
        return []

    monkeypatch.setattr(examination, "_scaling", scaling)
    monkeypatch.setattr(examination, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    found = examine(peers=["transformers"])
    assert found.left_out == []
    assert parts[-1] == ("translating", ("transformers",))


def test_a_check_that_fails_with_an_error_is_a_finding(parts, monkeypatch):
    def fail():
        raise RuntimeError("no kernel image")

    checks = [("this", fail), ("that", lambda: [Check("that", True, "")])]
    monkeypatch.setattr(examination, "all_checks", lambda *arguments: checks)
    monkeypatch.setattr(examination, "check_ranks", lambda *arguments: [])
    found = examine(with_speeds=False)
    assert [(check.name, check.passed) for check in found.checks] == [("this", False), ("that", True)]
    assert found.checks[0].detail == "RuntimeError: no kernel image"
    assert not found.passed


def test_what_fails_beside_a_peer_is_measured_alone(parts, monkeypatch):
    measure = examination.translating_speeds

    def fail_beside_peers(*arguments):
        if arguments[-1]:
            raise NmtError("the benchmark of ctranslate2 failed")
        return measure(*arguments)

    def fail(data, preset, precision, against=None):
        raise NmtError("killed")

    monkeypatch.setattr(examination, "translating_speeds", fail_beside_peers)
    monkeypatch.setattr(examination, "training_speed", fail)
    found = examine(peers=["ctranslate2"])
    assert len(found.translating) == 1
    assert found.training == []
    assert "translating, base beside other toolkits: the benchmark of ctranslate2 failed" in found.left_out
    assert "training, base, " in " ".join(found.left_out)


def test_processes_that_a_launcher_started_examine_nothing(parts, monkeypatch):
    """They would measure each other, and write to the same files."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"Run it once, without torchrun\."):
        examine(report=parts.append)
    assert parts == []
