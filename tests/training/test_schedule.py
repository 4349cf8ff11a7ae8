"""The learning rate at the updates that people compare."""

import pytest

from nmt.config import ScheduleConfig
from nmt.training.schedule import DecaySpan, decay_span, learning_rate, peak_update


@pytest.mark.parametrize(
    ("update", "rate"), [(1, 1.746928107421711e-07), (4000, 0.0006987712429686843), (100_000, 0.00013975424859373687)]
)
def test_base_follows_equation_3(update, rate):
    assert learning_rate(update, ScheduleConfig(), 512) == pytest.approx(rate, rel=1e-12)


def test_peaks_at_the_end_of_warmup():
    schedule = ScheduleConfig(warmup=100, factor=2.0)
    rates = [learning_rate(update, schedule, 256) for update in range(1, 1000)]
    assert max(rates) == rates[99] == learning_rate(peak_update(schedule), schedule, 256)


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
    assert peak == learning_rate(100, ScheduleConfig(warmup=100), 64)
    for update, share in ((350, (1 + 0.5**0.5) / 2), (600, 0.5), (850, (1 - 0.5**0.5) / 2), (1_100, 0.0)):
        assert learning_rate(update, cosine, 64) == pytest.approx(peak * share, rel=1e-9, abs=1e-15)


def test_warmup_stable_decay_keeps_its_peak_and_lands_on_its_last_update():
    wsd = ScheduleConfig(warmup=100, decay="wsd", decay_updates=1_000, decay_share=0.2)
    peak = learning_rate(100, wsd, 64)
    assert {learning_rate(update, wsd, 64) for update in range(100, 801)} == {peak}
    assert learning_rate(901, wsd, 64) == pytest.approx(peak * 100 / 201, rel=1e-9)
    assert learning_rate(1_000, wsd, 64) == pytest.approx(peak / 201, rel=1e-9)
    assert learning_rate(1_001, wsd, 64) == 0.0


def test_a_decay_never_begins_before_the_warmup_ends():
    wsd = ScheduleConfig(warmup=100, decay="wsd", decay_updates=1_000, decay_share=0.95)
    assert decay_span(wsd, None) == DecaySpan(100, 1_000)


def test_a_decay_without_an_end_of_its_own_ends_with_the_run():
    for decay in ("linear", "cosine"):
        fixed = ScheduleConfig(warmup=100, decay=decay, decay_updates=1_099)
        open_ended = ScheduleConfig(warmup=100, decay=decay)
        for update in (1, 100, 101, 600, 1_099, 1_100):
            assert learning_rate(update, open_ended, 64, 1_099) == learning_rate(update, fixed, 64)
            assert learning_rate(update, fixed, 64, 5_000) == learning_rate(update, fixed, 64)  # decay_updates decide
    wsd = ScheduleConfig(warmup=100, decay="wsd", decay_share=0.25)
    assert decay_span(wsd, 2_000) == DecaySpan(1_500, 2_000)
    peak = learning_rate(100, wsd, 64)
    assert learning_rate(1_500, wsd, 64, 2_000) == peak
    assert learning_rate(2_000, wsd, 64, 2_000) == pytest.approx(peak / 501, rel=1e-9)


def test_as_long_as_the_end_is_unknown_a_rate_stays_at_its_peak():
    linear = ScheduleConfig(warmup=100, decay="linear")
    assert [learning_rate(update, linear, 64) for update in (100, 5_000)] == [
        learning_rate(100, ScheduleConfig(warmup=100), 64)
    ] * 2


@pytest.mark.parametrize("decay", ["linear", "cosine", "wsd"])
@pytest.mark.parametrize("last", [1, 2, 30, 100, 150])
def test_a_run_that_is_shorter_than_two_warmups_lands_too(decay, last):
    schedule = ScheduleConfig(warmup=100, decay=decay)
    rates = [learning_rate(update, schedule, 64, last) for update in range(1, last + 2)]
    top = rates.index(max(rates))
    assert rates == sorted(rates[:top]) + sorted(rates[top:], reverse=True)
    assert rates[-1] == 0.0
    assert max(rates) > 0
    assert peak_update(schedule, last) == top + 1
    assert top == max(last // 2, 1) - 1 or decay == "wsd"
    if last > 2:
        assert rates[-2] <= max(rates) / 2


def test_the_peak_is_where_the_warmup_ends_or_the_run():
    paper = ScheduleConfig(warmup=100)
    assert [peak_update(paper, last) for last in (None, 5_000, 60)] == [100, 100, 60]
    assert peak_update(ScheduleConfig(warmup=100, decay="linear", decay_updates=120), 110) == 100
    assert [peak_update(ScheduleConfig(warmup=100, decay="linear"), last) for last in (None, 5_000, 150)] == [
        100,
        100,
        75,
    ]
