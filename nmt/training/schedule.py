"""The learning rate as a pure function of the update."""

from __future__ import annotations

import math
from typing import NamedTuple

from nmt.config import ScheduleConfig


class DecaySpan(NamedTuple):
    """The updates of the decay: from the peak rate at ``first`` down to 0 just after ``last``."""

    first: int
    last: int


def learning_rate(update: int, schedule: ScheduleConfig, d_model: int, span: DecaySpan | None = None) -> float:
    """d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), times a factor (section 5.3, equation 3).

    The other schedules rise to the same peak; then the rate falls to 0 over the decay span, linearly or as half a
    cosine. Warmup-stable-decay (Hu et al. 2024, MiniCPM) keeps the peak until its span begins.

    Args:
        update: the number of the update, from 1.
        span: the decay span, if it was chosen during the run; see :func:`landing`.
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
    """The decay span that the settings determine; None for the paper's schedule, or if only the time is limited."""
    last = schedule.decay_updates
    if last is None:
        return None
    if schedule.decay == "wsd":
        return DecaySpan(max(schedule.warmup, last - round(schedule.decay_share * last)), last)
    return DecaySpan(schedule.warmup, last)


def landing(update: int, seconds: float, schedule: ScheduleConfig, max_seconds: float) -> DecaySpan | None:
    """The span of a warmup-stable-decay that ends at a time limit, if the decay should begin now; else None.

    Called after each update if the schedule has no ``decay_updates``. The span's length follows from the speed so far.

    Args:
        update: the last update.
        seconds: the duration of the run so far.
    """
    if seconds < max_seconds * (1 - schedule.decay_share):
        return None
    # 3% fewer updates than the speed allows, so that the rate reaches 0 before the time limit.
    left = max(1, round(0.97 * (max_seconds - seconds) / seconds * update))
    return DecaySpan(update, update + left)


def peak_learning_rate(schedule: ScheduleConfig, d_model: int) -> float:
    """The highest learning rate, reached at the end of the warm-up."""
    return learning_rate(schedule.warmup, schedule, d_model)
