"""Charts of a training run as inline SVG, legible at any width.

The curves are in an SVG that is stretched to the available width. Everything else is positioned in percent, so that
text and strokes keep their size on a narrow screen. Each chart is drawn over updates and over minutes; a style sheet
(``assets/charts.css``) shows one of the two. ``assets/charts.js`` adds the read-out under the pointer.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from nmt.reports.html import NOTHING, Html, element, join, text

MAX_POINTS = 1_000
"""The maximum number of points per curve on a page; longer curves are thinned out."""

COLOURS = 8
"""The number of colours in ``assets/charts.css``; the ninth curve has the colour of the first."""

# A long noisy curve is drawn faintly behind the means of this many stretches of it.
_STRETCHES = 150
# A curve of at most this many points shows each of them as a marker.
_MAX_MARKERS = 40
# Curves are drawn on a square of this size, which the browser stretches.
_SIZE = 1_000
# Larger and smaller numbers are written as powers of ten.
_LARGE, _SMALL = 1e7, 1e-4
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Axis = Literal["update", "minutes"]
AXES: tuple[Axis, ...] = ("update", "minutes")


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


@dataclass(frozen=True)
class Extent:
    """The end of the x-axis, which begins at 0. It is the same for all charts of a page, so that they compare."""

    update: float
    minutes: float


def extent(series: Iterable[Series]) -> Extent:
    """The smallest extent that includes all points."""
    points = [point for each in series for point in each.points]
    update = max((point.update for point in points), default=0)
    minutes = max((point.minutes for point in points if point.minutes is not None), default=0.0)
    return Extent(float(update or 1), minutes or 1.0)


def thin(points: Sequence[Point], maximum: int = MAX_POINTS) -> list[Point]:
    """At most ``maximum`` points: the first, the last, and the extremes of each stretch between, in their order.

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


def trend(points: Sequence[Point], stretches: int = _STRETCHES) -> list[Point]:
    """The means of equal stretches of a curve; the first and the last are at the ends of the curve."""
    means = []
    for number in range(stretches):
        stretch = points[number * len(points) // stretches : (number + 1) * len(points) // stretches]
        # The mean is drawn in the middle of its stretch; the first and the last at the ends of the curve.
        position = stretch[0 if number == 0 else -1 if number == stretches - 1 else len(stretch) // 2]
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


def chart(title: str, unit: str, series: Sequence[Series], extent: Extent, *, from_zero: bool, note: str = "") -> Html:
    """A figure with curves.

    Args:
        unit: unit of the values; may be empty.
        from_zero: whether the y-axis always begins at 0.
        note: a remark below the chart.

    Returns:
        The figure; empty if no curve has a point.
    """
    series = [replace(each, colour=each.colour % COLOURS) for each in series if each.points]
    if not series:
        return NOTHING
    shown = [replace(each, points=thin(each.points)) for each in series]
    values = [point.value for each in shown for point in each.points] + [0.0] * from_zero
    y_ticks = ticks(min(values), max(values), maximum=6)
    with_trend = [each.noisy and len(each.points) > 2 * _STRETCHES for each in series]
    faint = [each for each, noisy in zip(shown, with_trend, strict=True) if noisy]
    clear = [
        replace(every, points=trend(every.points)) if noisy else thinned
        for every, thinned, noisy in zip(series, shown, with_trend, strict=True)
    ]
    plots = [_plot(title, faint, clear, axis, getattr(extent, axis), y_ticks) for axis in AXES]
    return element(
        "figure",
        element("figcaption", text(f"{title} "), element("span", text(unit), class_="unit")),
        _legend(shown),
        element("div", *plots, class_="plots"),
        element("p", text(note), class_="note") if note else NOTHING,
        _data(shown),
        class_="chart",
    )


def _legend(series: Sequence[Series]) -> Html:
    if len(series) == 1:
        return NOTHING
    return element("ul", *(element("li", _swatch(each), text(each.label)) for each in series), class_="legend")


def _swatch(series: Series) -> Html:
    line = element("line", x1="0", x2="24", y1="5", y2="5", class_=_line_class(series))
    return element("svg", line, class_="swatch", width="24", height="10", aria_hidden="true")


def _line_class(series: Series) -> str:
    return f"curve colour-{series.colour}" + (" dashed" if series.dashed else "")


def _plot(
    title: str, faint: Sequence[Series], clear: Sequence[Series], axis: Axis, x_end: float, y_ticks: Sequence[float]
) -> Html:
    low, high = y_ticks[0], y_ticks[-1]
    # Dashed curves are drawn last, on top: the curves below them show through their gaps.
    clear = sorted(clear, key=lambda each: each.dashed)
    curves = [_curve(each, axis, x_end, low, high, faint=True) for each in faint]
    curves += [_curve(each, axis, x_end, low, high) for each in clear]
    markers = (
        element("circle", cx=_percent(x), cy=_percent(y), r="3", class_=f"marker colour-{each.colour}")
        for each in clear
        if len(each.points) <= _MAX_MARKERS
        for x, y in _places(each, axis, x_end, low, high)
    )
    # A nested SVG, so that only the curves are stretched.
    stretched = element(
        "svg", *curves, width="100%", height="100%", viewBox=f"0 0 {_SIZE} {_SIZE}", preserveAspectRatio="none",
        class_="curves",
    )  # fmt: skip
    return element(
        "svg",
        _y_axis(y_ticks),
        _x_axis(axis, x_end),
        stretched,
        *markers,
        class_=f"plot by-{axis}",
        role="img",
        aria_label=f"{title} by {axis}",
        data_axis=axis,
        data_end=f"{x_end:.10g}",
    )


def _curve(series: Series, axis: Axis, x_end: float, low: float, high: float, *, faint: bool = False) -> Html:
    points = (f"{x * _SIZE:.1f},{y * _SIZE:.1f}" for x, y in _places(series, axis, x_end, low, high))
    return element("polyline", points=" ".join(points), class_=_line_class(series) + (" faint" if faint else ""))


def _places(series: Series, axis: Axis, x_end: float, low: float, high: float) -> list[tuple[float, float]]:
    """The points of a curve as fractions of the plot's width and height, from its upper left corner."""
    found = []
    for point in series.points:
        x = point.update if axis == "update" else point.minutes
        if x is not None:
            found.append((x / x_end, (high - point.value) / (high - low)))
    return found


def _percent(share: float) -> str:
    return f"{share * 100:.2f}%"


def _y_axis(y_ticks: Sequence[float]) -> Html:
    low, high, step = y_ticks[0], y_ticks[-1], y_ticks[1] - y_ticks[0]
    parts = []
    for tick in y_ticks:
        y = _percent((high - tick) / (high - low))
        parts.append(element("line", x1="0", x2="100%", y1=y, y2=y, class_="grid"))
        parts.append(element("text", text(tick_label(tick, step)), x="-8", y=y, dy="0.32em", text_anchor="end"))
    return join(parts)


def _x_axis(axis: Axis, end: float) -> Html:
    x_ticks = [tick for tick in ticks(0.0, end, maximum=8) if tick <= end * (1 + 1e-9)]
    step = x_ticks[1] - x_ticks[0]
    parts = []
    for number, tick in enumerate(x_ticks):
        x = _percent(tick / end)
        # On a narrow screen, every second number is hidden.
        kind = "spare" if number % 2 else None
        parts.append(element("line", x1=x, x2=x, y1="0", y2="100%", class_="grid"))
        label = text(tick_label(tick, step))
        parts.append(element("text", label, x=x, y="100%", dy="1.5em", text_anchor="middle", class_=kind))
    name = element("text", text(axis), x="100%", y="100%", dy="2.9em", text_anchor="end")
    return join([*parts, name])


def _data(series: Sequence[Series]) -> Html:
    """The values for the read-out, as JSON."""
    values = [
        {
            "label": each.label,
            "colour": each.colour,
            "update": [point.update for point in each.points],
            "minutes": [None if point.minutes is None else round(point.minutes, 2) for point in each.points],
            "value": [float(f"{point.value:.5g}") for point in each.points],
        }
        for each in series
    ]
    # The text of a script element is not escaped like other text. Only "<" could begin a tag that ends it.
    content = Html(json.dumps(values, separators=(",", ":")).replace("<", "\\u003c"))
    return element("script", content, type="application/json")
