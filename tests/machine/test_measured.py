"""What is remembered of a machine, and for which machine."""

import json

import pytest
import torch

from nmt.machine import device, measured
from nmt.machine.device import choose_hardware
from nmt.machine.measured import forget_measurements, remembered, speedup


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nmt" / "measured"


def never():
    raise AssertionError("measured again")


def test_a_figure_is_measured_once_per_machine(monkeypatch, cache):
    assert remembered("speed", lambda: 2.5) == 2.5
    assert remembered("speed", never) == 2.5
    assert remembered("other speed", lambda: 1.5) == 1.5
    assert remembered("speed", never) == 2.5
    [file] = cache.iterdir()
    assert json.loads(file.read_text())["values"] == {"speed": 2.5, "other speed": 1.5}
    forget_measurements()
    assert remembered("speed", lambda: 3.5) == 3.5


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(measured, "processor_name", lambda: "another"),
        lambda patch: patch.setattr(measured, "processor_flags", lambda: ["amx_bf16"]),
        lambda patch: patch.setattr(measured, "usable_cores", lambda: 77),
        lambda patch: patch.setattr(measured.torch, "__version__", "99.0"),
        lambda patch: patch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2"),  # forbids instructions
    ],
)
def test_another_machine_measures_itself(monkeypatch, cache, change):
    assert remembered("speed", lambda: 2.5) == 2.5
    with monkeypatch.context() as patch:
        change(patch)
        assert remembered("speed", lambda: 7.5) == 7.5
        assert remembered("speed", never) == 7.5
    assert remembered("speed", never) == 2.5
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-4],
        lambda text: "[" * 10_000,
        lambda text: "[]",
        lambda text: json.dumps(json.loads(text) | {"values": [2.5]}),
        *(lambda text, bad=bad: text.replace("2.5", bad) for bad in ("-2.5", "0.0", "NaN", "1e999", '"2.5"', "true")),
    ],
)
def test_what_cannot_be_trusted_is_measured_again(cache, damage):
    remembered("speed", lambda: 2.5)
    [file] = cache.iterdir()
    file.write_text(damage(file.read_text()))
    assert remembered("speed", lambda: 4.5) == 4.5
    assert remembered("speed", never) == 4.5


@pytest.mark.parametrize("has_home", [True, False])
def test_a_cache_that_cannot_be_written_is_no_error(monkeypatch, cache, has_home):
    def fail(path):
        raise RuntimeError("Could not determine home directory.")

    cache.parent.mkdir(parents=True)
    cache.write_text("a file, not a folder")
    if not has_home:
        monkeypatch.setattr(measured.Path, "expanduser", fail)
    assert remembered("speed", lambda: 2.5) == 2.5
    assert remembered("speed", lambda: 4.5) == 4.5
    forget_measurements()
    assert cache.read_text() == "a file, not a folder"


def test_auto_remembers_its_trial_for_each_size(monkeypatch):
    tried = []
    monkeypatch.setattr(device, "bf16_speedup", lambda *sizes: tried.append(sizes) or 2.0)
    for _ in range(2):
        assert choose_hardware("cpu", product=(128, 512), threads=1).precision == "bf16"
        assert choose_hardware("cpu", product=(256, 512), threads=1).precision == "bf16"
    assert tried == [(128, 512), (256, 512)]


def test_a_speedup_is_that_of_the_fastest_tries_on_one_thread(monkeypatch):
    """Some tries are disturbed; the first of each computation, which compiles, does not count."""
    seconds = {"slow": iter([9.0, 3.0, 8.0, 4.0, 7.0]), "fast": iter([7.0, 9.0, 1.0, 2.0, 8.0])}
    computed, threads = [], set()

    def compute(name):
        computed.append(name)
        threads.add(torch.get_num_threads())
        return name

    monkeypatch.setattr(measured, "_seconds", lambda compute: next(seconds[compute()]))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert speedup(lambda: compute("slow"), lambda: compute("fast")) == 3.0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threads == {1}
    assert computed == ["slow", "fast"] * 6  # in turn, since a machine's speed changes


def test_a_far_slower_computation_is_tried_once(monkeypatch):
    seconds = iter([0.001, 0.4, 0.001, 0.4])
    monkeypatch.setattr(measured, "_seconds", lambda compute: next(seconds))
    assert speedup(str, str) == 0.0025
    assert list(seconds) == [0.001, 0.4]


def test_short_computations_are_tried_more_often(monkeypatch):
    seconds = iter([0.002, 0.002] * 5 + [0.002, 0.001] * 5)
    monkeypatch.setattr(measured, "_seconds", lambda compute: next(seconds))
    assert speedup(str, str) == 2.0
    assert list(seconds) == [0.002, 0.001]  # 0.03 seconds are over
