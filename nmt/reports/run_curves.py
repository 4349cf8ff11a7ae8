"""The charts of training runs, and the fields of records that they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nmt.reports.charts import Chart, Point, Series, chart, extent
from nmt.reports.run_history import Record, RunHistory, not_finite, number


@dataclass(frozen=True)
class _Curve:
    """A curve of one field of one kind of record."""

    name: str
    kind: Literal["update", "validation"]
    field: str
    scale: float = 1.0
    """The factor from the field's unit to the chart's."""
    noisy: bool = False
    is_optional: bool = False
    """Whether null means that it was not measured."""

    def records(self, run: RunHistory) -> list[Record]:
        return run.updates if self.kind == "update" else run.validations


@dataclass(frozen=True)
class _Chart:
    """Curves that share their axes."""

    title: str
    unit: str
    curves: tuple[_Curve, ...]
    from_zero: bool = True


_CHARTS = (
    _Chart(
        "Loss",
        "nats per target token",
        (_Curve("training", "update", "loss", noisy=True), _Curve("validation", "validation", "valid_loss")),
        from_zero=False,
    ),
    _Chart("Validation BLEU", "points", (_Curve("BLEU", "validation", "valid_bleu", is_optional=True),)),
    _Chart("Learning rate", "", (_Curve("rate", "update", "learning_rate"),)),
    _Chart(
        "Throughput",
        "target tokens per second",
        (_Curve("throughput", "update", "target_tokens_per_second", noisy=True),),
    ),
    _Chart("Gradient norm", "", (_Curve("norm", "update", "gradient_norm", noisy=True),)),
    _Chart(
        "Waiting for data", "% of the time", (_Curve("waiting", "update", "data_wait_share", scale=100, noisy=True),)
    ),
    _Chart("Peak memory", "GiB", (_Curve("memory", "update", "peak_memory_bytes", scale=2**-30),)),
)


def curves(runs: Sequence[RunHistory]) -> list[Chart]:
    """All charts that have data."""
    drawn = [(each, _series(each, runs)) for each in _CHARTS]
    whole = extent(series for _, each in drawn for series in each)
    charts = [
        chart(each.title, each.unit, series, whole, from_zero=each.from_zero, note=_note(each, runs))
        for each, series in drawn
    ]
    return [each for each in charts if each.series]


def _series(chart: _Chart, runs: Sequence[RunHistory]) -> list[Series]:
    """The curves of a chart, one colour per run, or per curve if there is one run. A second curve is dashed."""
    found = []
    for run_number, run in enumerate(runs):
        for curve_number, curve in enumerate(chart.curves):
            label = curve.name if len(runs) == 1 else run.label
            if len(runs) > 1 and len(chart.curves) > 1:
                label = f"{run.label}, {curve.name}"
            colour = curve_number if len(runs) == 1 else run_number
            points = _points(curve, run)
            found.append(Series(label, points, colour, dashed=curve_number > 0, noisy=curve.noisy))
    return found


def _points(curve: _Curve, run: RunHistory) -> list[Point]:
    points = []
    for record in curve.records(run):
        value, seconds = number(record, curve.field), number(record, "seconds")
        if value is not None:
            minutes = None if seconds is None or seconds < 0 else seconds / 60
            points.append(Point(record["update"], minutes, value * curve.scale))
    return points


def _note(chart: _Chart, runs: Sequence[RunHistory]) -> str:
    always = [curve for curve in chart.curves if not curve.is_optional]
    count = sum(not_finite(curve.records(run), curve.field) for run in runs for curve in always)
    notes = [f"Left out since infinite or not a number: {count:,}."] if count else []
    is_of_validation = any(curve.kind == "validation" for curve in chart.curves)
    if is_of_validation and len({run.valid_set for run in runs if run.valid_set}) > 1:
        notes.append("The runs were validated on different sentences: their validation figures cannot be compared.")
    return " ".join(notes)
