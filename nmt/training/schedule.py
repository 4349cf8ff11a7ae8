"""Learning rate as a pure function of the update."""

from __future__ import annotations

import math
from typing import NamedTuple

from nmt.config import ScheduleConfig


class DecaySpan(NamedTuple):
    """The updates over which the rate comes down: from its peak at ``first`` to 0 one behind ``last``."""

    first: int
    last: int


def learning_rate(update: int, schedule: ScheduleConfig, d_model: int, span: DecaySpan | None = None) -> float:
    """d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), times a factor (section 5.3, equation 3).

    The other schedules grow to the same peak; then the rate falls over the span to 0, in a straight line or as half a
    cosine. Warmup-stable-decay (Hu et al. 2024, MiniCPM) keeps the peak until its span begins.

    Args:
        update: counted from 1.
        span: where it is not settled by the schedule but was fixed in the course of the run; see :func:`landing`.
    """
    scale = schedule.factor * d_model**-0.5
    growing = update * schedule.warmup**-1.5
    if schedule.decay == "inverse_sqrt":
        return float(scale * min(update**-0.5, growing))
    peak = schedule.warmup**-0.5
    span = decay_span(schedule) or span
    if span is None or update <= span.first:
        return float(scale * min(growing, peak))
    left = max(0.0, (span.last + 1 - update) / (span.last + 1 - span.first))
    if schedule.decay == "cosine":
        left = (1 - math.cos(math.pi * left)) / 2
    return float(scale * min(growing, peak * left))


def decay_span(schedule: ScheduleConfig) -> DecaySpan | None:
    """The span that the settings alone give; None for the paper's schedule, and where only time is limited."""
    last = schedule.decay_updates
    if last is None:
        return None
    if schedule.decay == "wsd":
        return DecaySpan(max(schedule.warmup, last - round(schedule.decay_share * last)), last)
    return DecaySpan(schedule.warmup, last)


def landing(update: int, seconds: float, schedule: ScheduleConfig, max_seconds: float) -> DecaySpan | None:
    """When it is time for warmup-stable-decay to land on a limit of time: the span from here, by the pace so far.

    None before that. Asked after each update, of a schedule without ``decay_updates``.

    Args:
        update: that was made last.
        seconds: of the run so far.
    """
    if seconds < max_seconds * (1 - schedule.decay_share):
        return None
    # A little less than the pace promises, so that the rate reaches 0 before the time is over.
    left = max(1, round(0.97 * (max_seconds - seconds) / seconds * update))
    return DecaySpan(update, update + left)


def peak_learning_rate(schedule: ScheduleConfig, d_model: int) -> float:
    """The greatest rate, reached at the end of the warmup."""
    return learning_rate(schedule.warmup, schedule, d_model)
