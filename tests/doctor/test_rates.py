"""Rates: what is counted."""

import pytest
import torch

from nmt.doctor import rates
from nmt.machine.device import choose_hardware

CPU = choose_hardware("cpu", "fp32", 1)


def test_rates_are_measured_for_each_type_number_of_rows_and_threads(monkeypatch):
    monkeypatch.setattr(rates, "ROWS", (2, 8))
    monkeypatch.setattr(rates, "bf16_speedup", lambda *sizes: 0.1)  # emulated: it would take too long
    monkeypatch.setattr(rates, "computes", lambda device, precision: precision != "int8")
    found = rates.product_rates(CPU)
    assert [(rate.precision, rate.rows, rate.threads) for rate in found] == [("fp32", 2, 1), ("fp32", 8, 1)]


@pytest.mark.parametrize("seconds", [1.0, 0.25])
def test_rates_are_numbers_by_the_time_that_was_measured(monkeypatch, seconds):
    monkeypatch.setattr(rates, "_seconds", lambda compute, device: compute() is None or seconds)
    monkeypatch.setattr(rates, "_COPIED_NUMBERS", 1_000)
    assert rates.memory_bandwidth(CPU) == 2 * 4_000 / seconds  # each number is read and written
    monkeypatch.setattr(rates, "BASE_PRODUCT", (8, 16))
    # A product and a sum for each of 3 x 16 results and 8 features.
    assert rates._product_rate(3, torch.float32, CPU.device) == 2 * 3 * 16 * 8 / seconds


def test_a_computation_is_timed_by_the_median_of_one(monkeypatch):
    clock = [0.0]
    durations = iter([9.0, 0.001, 0.003, 0.002, 0.004, 0.001, 0.009, 0.004, 0.004, 0.004, 0.1, 0.1, 0.004, 0.004])

    def compute() -> None:
        clock[0] += next(durations)

    monkeypatch.setattr(rates.time, "perf_counter", lambda: clock[0])
    # The first time does not count; then one, two (as long as they must be), and four more pairs.
    assert rates._seconds(compute, torch.device("cpu")) == pytest.approx(0.008 / 2)
