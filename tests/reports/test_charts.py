"""Curves are where their values are, and stay few points."""

import itertools
import json
import math

import pytest

from nmt.reports.charts import Point, Series, chart, extent, thin, tick_label, ticks, trend
from nmt.reports.pages import environment


def points(values, *, minutes: bool = True) -> list[Point]:
    """One at each tenth update, which takes a minute."""
    return [Point(10 * i, float(i) if minutes else None, float(value)) for i, value in enumerate(values, start=1)]


def draw(*series: Series, from_zero: bool = False):
    made = chart("Loss", "nats", series, extent(series), from_zero=from_zero)
    return environment().get_template("chart.html").module.chart(made)


def coordinates(polyline: dict) -> list[list[float]]:
    return [[float(number) for number in pair.split(",")] for pair in (polyline["points"] or "").split()]


def test_thinning_keeps_ends_extremes_and_order():
    values = [math.sin(i / 500) for i in range(20_000)]
    values[7_777], values[15_001] = 50.0, -50.0
    every = points(values)
    thinned = thin(every)
    assert 900 < len(thinned) <= 1_000
    assert (thinned[0], thinned[-1]) == (every[0], every[-1])
    assert {every[7_777], every[15_001]} <= set(thinned)
    assert thinned == sorted(thinned, key=lambda point: point.update)
    # No stretch is left empty.
    assert max(b.update - a.update for a, b in itertools.pairwise(thinned)) <= 10 * 2 * 20_000 / 499


def test_a_spike_in_any_single_record_stays_visible():
    for spike in range(0, 5_000, 83):
        curve = points([9.0 if i == spike else 0.0 for i in range(5_000)])
        assert curve[spike] in thin(curve)


def test_a_trend_is_the_mean_of_stretches():
    means = trend(points([0, 10] * 750))
    assert [mean.value for mean in means] == [5] * 150
    assert (means[0].update, means[-1].update) == (10, 15_000)


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0, 8, 6, [0, 2, 4, 6, 8]),
        (1.3, 7.8, 6, [0, 2, 4, 6, 8]),
        (0, 3800, 8, [0, 1000, 2000, 3000, 4000]),
        (-3, 12, 6, [-5, 0, 5, 10, 15]),
        (0, 0.0021, 6, [0, 0.0005, 0.001, 0.0015, 0.002, 0.0025]),
        (0, 0, 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (4, 4, 6, [2, 3, 4, 5, 6]),
    ],
)
def test_ticks_are_round_and_reach_around_the_values(low, high, most, expected):
    assert ticks(low, high, most) == pytest.approx(expected)


@pytest.mark.parametrize("size", [1e-30, 1e-5, 1.0, 7.0, 1e12, 1e30])
def test_there_are_always_ticks_around_the_values(size):
    for low, high in ((0, size), (size, size), (-size, size), (size, size * (1 + 1e-6))):
        found = ticks(low, high, 6)
        rounding = size * 1e-9
        assert found[0] <= low + rounding and high - rounding <= found[-1]
        assert 2 <= len(found) <= 8
        assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("value", "step", "expected"),
    [
        (0, 1, "0"),
        (20_000, 5_000, "20,000"),
        (2.5, 0.5, "2.5"),
        (0.0005, 0.0005, "0.0005"),
        (1e-17, 0.5, "0"),
        (3e-5, 1e-5, "3×10⁻⁵"),
        (1.5e-4, 5e-5, "1.5×10⁻⁴"),
        (2e9, 1e9, "2×10⁹"),
        (-3, 1, "-3"),
    ],
)
def test_numbers_at_the_axes(value, step, expected):
    assert tick_label(value, step) == expected


def test_a_curve_lies_where_its_values_are(parsed):
    # Ticks reach from 0 to 8, updates from 0 to 40.
    page = parsed(draw(Series("training", points([8, 4, 2, 0]))))
    by_update, by_minutes = page.having("polyline")
    assert coordinates(by_update) == [[250, 0], [500, 500], [750, 750], [1000, 1000]]
    assert coordinates(by_minutes) == coordinates(by_update)
    assert [a["cx"] for a in page.having("circle")][:4] == ["25.00%", "50.00%", "75.00%", "100.00%"]
    assert [attributes["data-end"] for attributes in page.having("svg", "plot")] == ["40", "4"]


def test_the_axis_may_be_made_to_begin_at_zero(parsed):
    series = Series("a", points([100, 104]))
    for from_zero, height in ((False, 1000), (True, 333.3)):
        curve, _ = parsed(draw(series, from_zero=from_zero)).having("polyline")
        assert coordinates(curve)[0][1] == height


def test_a_table_has_the_values_of_all_curves():
    training = Series("training", points([math.sin(i) for i in range(3_000)]))
    validation = Series("validation", [Point(20, None, 312_345.6), Point(35, 3.5, 0.5)])
    table = chart("Loss", "nats", [training, validation], extent([training]), from_zero=False).values
    assert table.header == ["update", "minutes", "training", "validation"]
    assert [row[0] for row in table.rows[:1] + table.rows[-1:]] == ["10", "30,000"]
    assert ["35", "3.5", "", "0.5"] in table.rows
    assert [row[3] for row in table.rows if row[0] == "20"] == ["312,346"]
    assert 90 < len(table.rows) <= 102


def test_the_table_can_be_opened_without_a_script(parsed):
    page = parsed(draw(Series("training", points([8, 4]))))
    assert len(page.having("details")) == len(page.having("summary")) == 1
    assert page.text.split("Values\n")[1].split()[:9] == [
        "update",
        "minutes",
        "training",
        "10",
        "1",
        "8",
        "20",
        "2",
        "4",
    ]


def test_nothing_is_drawn_without_points():
    assert chart("Loss", "", [Series("a", [])], {"update": 1.0, "minutes": 1.0}, from_zero=True).series == []
    assert extent([Series("a", [])]) == {"update": 1.0, "minutes": 1.0}


def test_a_legend_names_the_curves_where_there_are_several(parsed):
    two = [Series("training", points([1, 2]), 0), Series("validation", points([2, 3]), 1, dashed=True)]
    page = parsed(draw(*two))
    assert [label in page.text for label in ("training", "validation")] == [True, True]
    assert len(page.having("polyline", "dashed")) == 2
    assert not parsed(draw(two[0])).having("ul")


def test_a_long_noisy_curve_lies_faintly_behind_its_trend(parsed):
    values = [i % 2 for i in range(5_000)]
    page = parsed(draw(Series("a", points(values), noisy=True)))
    faint, clear, *_ = page.having("polyline")
    assert "faint" in faint["class"] and "faint" not in clear["class"]
    assert len(coordinates(faint)) > len(coordinates(clear)) == 150
    assert {y for _, y in coordinates(faint)} == {0, 1000}
    assert all(400 < y < 600 for _, y in coordinates(clear))
    assert not parsed(draw(Series("a", points(values)))).having("polyline", "faint")


def test_the_read_out_has_the_values_and_cannot_be_broken_out_of(parsed):
    label = "</script><script>alert(1)</script>"
    page = parsed(draw(Series(label, points([0.123456789, 2]))))
    (script,) = page.scripts
    assert json.loads(script) == [
        {"label": label, "colour": 0, "update": [10, 20], "minutes": [1, 2], "value": [0.12346, 2]}
    ]
