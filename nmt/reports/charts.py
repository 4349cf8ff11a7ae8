"""Charts of a training run as inline SVG, legible at any width.

The curves are in an SVG that is stretched to the available width. Everything else is positioned in percent, so that
text and strokes keep their size on a narrow screen. Each chart is drawn over updates and over minutes; a style sheet
(``assets/charts.css``) shows one of the two. ``assets/charts.js`` adds the read-out under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from nmt.table import Table

MAX_POINTS = 1_000
"""The maximum number of points per curve on a page; longer curves are thinned out."""

MAX_ROWS = 100
"""The maximum number of points per curve in the table below a chart."""

COLOURS = 8
"""The number of colours in ``assets/charts.css``; the ninth curve has the colour of the first."""

STRETCHES = 150
"""A long noisy curve is drawn faintly behind the means of this many stretches of it."""

# Curves are drawn on a square of this size (the viewBox in templates/chart.html), which the browser stretches.
_SIZE = 1_000
# A curve of at most this many points shows each of them as a marker.
_MAX_MARKERS = 40
# Larger and smaller numbers are written as powers of ten.
_LARGE, _SMALL = 1e7, 1e-4
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Axis = Literal["update", "minutes"]


class Point(NamedTuple):
    """A value, and the time when it was measured."""

    update: int
    minutes: float | None
    """Minutes since the run began; None if not recorded."""
    value: float


@dataclass(frozen=True)
class Series:
    """A curve."""

    label: str
    points: Sequence[Point]
    """The points, ordered by update."""
    colour: int = 0
    """The number of the colour, from 0."""
    dashed: bool = False
    noisy: bool = False
    """Whether many points hide the curve's trend, so that the trend is drawn too."""

    @property
    def line_class(self) -> str:
        """Its classes in the style sheet."""
        return f"curve colour-{self.colour}{' dashed' if self.dashed else ''}"


@dataclass(frozen=True)
class Plot:
    """The curves over one axis. All places are in percent of the plot, from its upper left corner."""

    axis: Axis
    end: str
    """The end of the x-axis."""
    x_ticks: list[tuple[str, str]]
    """Places and numbers."""
    y_ticks: list[tuple[str, str]]
    curves: list[tuple[str, str]]
    """The points of each curve, in units of the SVG that is stretched, and its classes."""
    markers: list[tuple[str, str, int]]
    """x, y and colour of each point that is marked."""


@dataclass(frozen=True)
class Chart:
    """A figure with the same curves over each axis, as ``templates/chart.html`` draws it."""

    title: str
    unit: str
    series: list[Series]
    plots: list[Plot]
    note: str

    @property
    def values(self) -> Table:
        """The values for those who read no chart: each curve thinned out to at most :data:`MAX_ROWS` of its points."""
        header = ["update", "minutes", *(each.label for each in self.series)]
        table = Table("", header, numbers=range(len(header)))
        columns = [{point.update: point for point in thin(each.points, MAX_ROWS)} for each in self.series]
        for update in sorted(set().union(*columns)):
            points = [column.get(update) for column in columns]
            minutes = next((point.minutes for point in points if point and point.minutes is not None), None)
            cells = (minutes, *(point and point.value for point in points))
            table.add(f"{update:,}", *map(_five_digits, cells))
        return table

    @property
    def read_out(self) -> list[dict[str, Any]]:
        """The values that ``assets/charts.js`` shows under the pointer."""
        return [
            {
                "label": each.label,
                "colour": each.colour,
                "update": [point.update for point in each.points],
                "minutes": [None if point.minutes is None else round(point.minutes, 2) for point in each.points],
                "value": [float(f"{point.value:.5g}") for point in each.points],
            }
            for each in self.series
        ]


def _five_digits(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"  # g writes 300,000 as a power of ten


def extent(series: Iterable[Series]) -> dict[Axis, float]:
    """The end of each x-axis, which begins at 0. It is the same for all charts of a page, so that they compare."""
    points = [point for each in series for point in each.points]
    update = max((point.update for point in points), default=0)
    minutes = max((point.minutes for point in points if point.minutes is not None), default=0.0)
    return {"update": float(update or 1), "minutes": minutes or 1.0}


def thin(points: Sequence[Point], maximum: int = MAX_POINTS) -> list[Point]:
    """At most so many points: the first, the last, and the extremes of each stretch between, in their order.

    So a spike in a single record stays visible.
    """
    if len(points) <= maximum:
        return list(points)
    buckets = (maximum - 2) // 2
    inner = len(points) - 2
    kept = [points[0]]
    for bucket in range(buckets):
        begin, end = 1 + bucket * inner // buckets, 1 + (bucket + 1) * inner // buckets
        stretch = range(begin, end)
        least, greatest = (choose(stretch, key=lambda i: points[i].value) for choose in (min, max))
        kept += [points[i] for i in sorted({least, greatest})]
    return [*kept, points[-1]]


def trend(points: Sequence[Point]) -> list[Point]:
    """The means of :data:`STRETCHES` equal stretches of a curve, each in the middle of its stretch, but the first and
    the last at the ends of the curve."""
    means = []
    for number in range(STRETCHES):
        stretch = points[number * len(points) // STRETCHES : (number + 1) * len(points) // STRETCHES]
        position = stretch[0 if number == 0 else -1 if number == STRETCHES - 1 else len(stretch) // 2]
        means.append(position._replace(value=sum(point.value for point in stretch) / len(stretch)))
    return means


def ticks(low: float, high: float, maximum: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that span ``low`` to ``high``: about ``maximum`` at most."""
    size = max(abs(low), abs(high))
    if high - low <= size * 1e-9:
        # There is practically one value: it is drawn in the middle, or at the bottom if it is 0.
        low, high = (low - size / 2, high + size / 2) if size else (0.0, 1.0)
    finest = (high - low) / (maximum - 1)
    power = 10.0 ** math.floor(math.log10(finest))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= finest * (1 - 1e-9))
    # A boundary that is missed only by rounding counts as met.
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def tick_label(value: float, step: float) -> str:
    """A number at an axis, with the decimals that the step between two ticks needs."""
    if abs(value) < step / 2:
        return "0"
    step_exponent = math.floor(math.log10(step) + 1e-9)
    if abs(value) >= _LARGE or step < _SMALL:
        exponent = math.floor(math.log10(abs(value)) + 1e-9)
        mantissa = f"{value / 10.0**exponent:.{max(0, exponent - step_exponent)}f}"
        return f"{mantissa}×10{str(exponent).translate(_SUPERSCRIPT)}"
    return f"{value:,.{max(0, -step_exponent)}f}"


def chart(
    title: str, unit: str, series: Sequence[Series], ends: Mapping[Axis, float], *, from_zero: bool, note: str = ""
) -> Chart:
    """A figure with curves; those without points are left out.

    Args:
        unit: unit of the values; may be empty.
        ends: as of :func:`extent`.
        from_zero: whether the y-axis always begins at 0.
        note: a remark below the chart.
    """
    series = [replace(each, colour=each.colour % COLOURS) for each in series if each.points]
    shown = [replace(each, points=thin(each.points)) for each in series]
    values = [point.value for each in shown for point in each.points] + [0.0] * from_zero
    if not shown:
        return Chart(title, unit, [], [], note)
    y_ticks = ticks(min(values), max(values), maximum=6)
    with_trend = [each.noisy and len(each.points) > 2 * STRETCHES for each in series]
    faint = [each for each, noisy in zip(shown, with_trend, strict=True) if noisy]
    clear = [
        replace(every, points=trend(every.points)) if noisy else thinned
        for every, thinned, noisy in zip(series, shown, with_trend, strict=True)
    ]
    # Dashed curves are drawn last, on top: the curves below them show through their gaps.
    clear.sort(key=lambda each: each.dashed)
    plots = [_plot(faint, clear, axis, end, y_ticks) for axis, end in ends.items()]
    return Chart(title, unit, shown, plots, note)


def _plot(faint: Sequence[Series], clear: Sequence[Series], axis: Axis, end: float, y_ticks: Sequence[float]) -> Plot:
    low, high = y_ticks[0], y_ticks[-1]

    def places(series: Series) -> list[tuple[float, float]]:
        """The points of a curve as fractions of the plot's width and height, from its upper left corner."""
        times = [(point.update if axis == "update" else point.minutes, point.value) for point in series.points]
        return [(x / end, (high - value) / (high - low)) for x, value in times if x is not None]

    def drawn(series: Series, suffix: str = "") -> tuple[str, str]:
        points = (f"{x * _SIZE:.1f},{y * _SIZE:.1f}" for x, y in places(series))
        return " ".join(points), series.line_class + suffix

    x_ticks = [tick for tick in ticks(0.0, end, maximum=8) if tick <= end * (1 + 1e-9)]
    return Plot(
        axis=axis,
        end=f"{end:.10g}",
        x_ticks=[(_percent(tick / end), tick_label(tick, x_ticks[1] - x_ticks[0])) for tick in x_ticks],
        y_ticks=[
            (_percent((high - tick) / (high - low)), tick_label(tick, y_ticks[1] - y_ticks[0])) for tick in y_ticks
        ],
        curves=[*(drawn(each, " faint") for each in faint), *map(drawn, clear)],
        markers=[
            (_percent(x), _percent(y), each.colour)
            for each in clear
            if len(each.points) <= _MAX_MARKERS
            for x, y in places(each)
        ],
    )


def _percent(share: float) -> str:
    return f"{share * 100:.2f}%"
