"""The learning rate at the updates that people compare."""

import pytest

from nmt.config import ScheduleConfig
from nmt.training.schedule import learning_rate, peak_learning_rate


@pytest.mark.parametrize(
    ("update", "rate"), [(1, 1.746928107421711e-07), (4000, 0.0006987712429686843), (100_000, 0.00013975424859373687)]
)
def test_base_follows_equation_3(update, rate):
    assert learning_rate(update, ScheduleConfig(), 512) == pytest.approx(rate, rel=1e-12)


def test_peaks_at_the_end_of_warmup():
    schedule = ScheduleConfig(warmup=100, factor=2.0)
    rates = [learning_rate(update, schedule, 256) for update in range(1, 1000)]
    assert max(rates) == rates[99] == peak_learning_rate(schedule, 256)


def test_a_linear_decay_falls_from_the_same_peak_to_nothing():
    paper = ScheduleConfig(warmup=100)
    linear = ScheduleConfig(warmup=100, decay="linear", decay_updates=1_099)
    assert [learning_rate(u, linear, 64) for u in (1, 50, 100)] == [learning_rate(u, paper, 64) for u in (1, 50, 100)]
    peak = learning_rate(100, linear, 64)
    for update, share in ((350, 0.75), (600, 0.5), (1_099, 0.001), (1_100, 0.0), (5_000, 0.0)):
        assert learning_rate(update, linear, 64) == pytest.approx(peak * share, rel=1e-9)
