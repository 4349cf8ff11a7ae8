"""The learning rate at the updates that people compare."""

import pytest

from nmt.config import ScheduleConfig
from nmt.training.schedule import landing, learning_rate, peak_learning_rate


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


def test_half_a_cosine_falls_from_the_same_peak_to_nothing():
    cosine = ScheduleConfig(warmup=100, decay="cosine", decay_updates=1_099)
    peak = learning_rate(100, cosine, 64)
    assert peak == peak_learning_rate(ScheduleConfig(warmup=100), 64)
    for update, share in ((350, (1 + 0.5**0.5) / 2), (600, 0.5), (850, (1 - 0.5**0.5) / 2), (1_100, 0.0)):
        assert learning_rate(update, cosine, 64) == pytest.approx(peak * share, rel=1e-9, abs=1e-15)


def test_warmup_stable_decay_keeps_its_peak_and_lands_on_its_last_update():
    wsd = ScheduleConfig(warmup=100, decay="wsd", decay_updates=1_000, decay_share=0.2)
    peak = learning_rate(100, wsd, 64)
    assert {learning_rate(update, wsd, 64) for update in range(100, 801)} == {peak}
    assert learning_rate(901, wsd, 64) == pytest.approx(peak * 100 / 201, rel=1e-9)
    assert learning_rate(1_000, wsd, 64) == pytest.approx(peak / 201, rel=1e-9)
    assert learning_rate(1_001, wsd, 64) == 0.0


def test_a_limit_of_time_is_landed_on_by_the_pace_so_far():
    wsd = ScheduleConfig(warmup=100, decay="wsd", decay_share=0.25)
    assert landing(740, 740.0, wsd, 1_000.0) is None
    span = landing(1_500, 750.0, wsd, 1_000.0)  # two updates a second, 250 seconds left
    assert span == (1_500, 1_500 + 485)
    peak = learning_rate(1_500, wsd, 64, span)
    assert peak == peak_learning_rate(wsd, 64)
    assert learning_rate(span.last, wsd, 64, span) == pytest.approx(peak / 486, rel=1e-9)
