"""Rates and speeds: what is counted, and that everything measured is there."""

import pytest
import torch

from nmt.doctor import rates, speeds
from nmt.doctor.speeds import Choice, TrainingSpeed, TranslatingSpeed, choices
from nmt.machine.device import choose_hardware


def test_rates_are_measured_for_each_type_number_of_rows_and_threads(monkeypatch):
    hardware = choose_hardware("cpu", "fp32", 1)
    monkeypatch.setattr(rates, "_ROWS", (2, 8))
    monkeypatch.setattr(rates, "bf16_speedup", lambda *sizes: 0.1)  # emulated: it would take too long
    monkeypatch.setattr(rates, "computes", lambda device, precision: precision != "int8")
    found = rates.product_rates(hardware)
    kinds = {rate.precision for rate in found}
    assert kinds == {"fp32"}
    assert [(rate.rows, rate.threads) for rate in found if rate.precision == "fp32"] == [(2, 1), (8, 1)]
    assert all(rate.operations_per_second > 1e6 for rate in found)
    monkeypatch.setattr(rates, "_COPIED_NUMBERS", 1 << 16)
    assert rates.memory_bandwidth(hardware) > 1e6


@pytest.mark.parametrize("seconds", [1.0, 0.25])
def test_rates_are_numbers_by_the_time_that_was_measured(monkeypatch, seconds):
    monkeypatch.setattr(rates, "_seconds", lambda compute, device: compute() is None or seconds)
    monkeypatch.setattr(rates, "_COPIED_NUMBERS", 1_000)
    hardware = choose_hardware("cpu", "fp32", 1)
    assert rates.memory_bandwidth(hardware) == 2 * 4_000 / seconds  # each number is read and written
    monkeypatch.setattr(rates, "BASE_PRODUCT", (8, 16))
    # A product and a sum for each of 3 x 16 results and 8 features.
    assert rates._product_rate(3, torch.float32, hardware.device) == 2 * 3 * 16 * 8 / seconds


def test_a_computation_is_timed_by_the_median_of_one(monkeypatch):
    clock = [0.0]
    durations = iter([9.0, 0.001, 0.003, 0.002, 0.004, 0.001, 0.009, 0.004, 0.004, 0.004, 0.1, 0.1, 0.004, 0.004])

    def compute() -> None:
        clock[0] += next(durations)

    monkeypatch.setattr(rates.time, "perf_counter", lambda: clock[0])
    # The first time does not count; then one, two (as long as they must be), and four more pairs.
    assert rates._seconds(compute, torch.device("cpu")) == pytest.approx(0.008 / 2)


@pytest.mark.parametrize(
    ("taken", "measured", "right"),
    [
        ("bf16", {"fp32": 1.0, "bf16": 2.0}, True),
        ("fp32", {"fp32": 1.0, "bf16": 2.0}, False),
        ("fp32", {"fp32": 0.95, "bf16": 1.0}, True),  # as fast, within the error
        ("fp32", {"fp32": 1.0}, None),
        ("fp16", {"fp32": 1.0, "bf16": 2.0}, None),
    ],
)
def test_a_choice_is_right_if_nothing_is_clearly_faster(taken, measured, right):
    assert Choice("a choice", taken, "", measured, "").is_right is right


def test_the_choice_for_each_size_is_its_own():
    small, base = choose_hardware("cpu", "fp32", 1), choose_hardware("cpu", "bf16", 1)
    assert [choice.taken for choice in choices(small, base, [], [])] == ["fp32", "bf16"]


def test_choices_are_judged_by_what_can_be_chosen_alone():
    hardware = choose_hardware("cpu", "fp32", 1)
    training = [
        TrainingSpeed("small", "fp32", 100.0),
        TrainingSpeed("small", "bf16", 300.0),
        TrainingSpeed("base", "fp32", 900.0),
    ]
    translating = [
        TranslatingSpeed("nmt fp32", "fp32", 100.0, 1, 1, 1),
        TranslatingSpeed("nmt int8", "int8", 900.0, 1, 1, 1),
        TranslatingSpeed("nmt-ctranslate2 fp32", "fp32", 900.0, 1, 1, 1),
    ]
    found = choices(hardware, hardware, training, translating)
    assert [(choice.taken, choice.is_right) for choice in found] == [
        ("fp32", False),  # bf16 would be faster
        ("fp32", None),  # int8 is never taken by itself
    ]
    assert found[0].measured == {"fp32": 100.0, "bf16": 300.0}


@pytest.mark.slow
def test_training_and_translating_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(speeds, "_PAIRS", 1_000)
    monkeypatch.setattr(speeds, "_VOCAB_SIZE", 300)
    data = speeds.text_to_train_on(tmp_path / "text")
    assert (data / "vocab.txt").read_text("utf-8").count("\n") == 300
    for preset in speeds.PRESETS:
        speed = speeds.training_speed(data, preset, "fp32")
        assert (speed.preset, speed.precision) == (preset, "fp32")
        assert speed.tokens_per_second > 10  # of batches of hundreds of pieces
    monkeypatch.setattr(speeds, "_SENTENCES", 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    hardware = choose_hardware("cpu", "fp32", 2)
    products = [rates.ProductRate("fp32", 256, 2, 1e11), rates.ProductRate("fp32", 256, 1, 1e10)]
    [speed] = speeds.translating_speeds(data, tmp_path, hardware, products)
    assert speed.engine == "nmt fp32"
    assert speed.latency_milliseconds > 1
