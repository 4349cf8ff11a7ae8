"""The learning rate as a pure function of the update."""

from __future__ import annotations

import math
from typing import NamedTuple

from nmt.config import ScheduleConfig


class DecaySpan(NamedTuple):
    """The updates of the decay: from the peak rate at ``first`` down to 0 just after ``last``."""

    first: int
    last: int


def learning_rate(update: int, schedule: ScheduleConfig, d_model: int, last: int | None = None) -> float:
    """d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), times a factor (section 5.3, equation 3).

    The other schedules rise to the same peak; then the rate falls to 0 over the decay span, linearly or as half a
    cosine. Warmup-stable-decay (Hu et al. 2024, MiniCPM) keeps the peak until its span begins.

    Args:
        update: the number of the update, from 1.
        last: the last update of the run, as far as it is known; see :func:`decay_span`.
    """
    scale = schedule.factor * d_model**-0.5
    growing = update * schedule.warmup**-1.5
    if schedule.decay == "inverse_sqrt":
        return float(scale * min(update**-0.5, growing))
    peak = schedule.warmup**-0.5
    span = decay_span(schedule, last)
    if span is None or update <= span.first:
        return float(scale * min(growing, peak))
    left = max(0.0, (span.last + 1 - update) / (span.last + 1 - span.first))
    if schedule.decay == "cosine":
        left = (1 - math.cos(math.pi * left)) / 2
    return float(scale * min(span.first * schedule.warmup**-1.5, peak) * left)


def decay_span(schedule: ScheduleConfig, last: int | None) -> DecaySpan | None:
    """The updates of the decay. They end with ``decay_updates`` or, if that is unset, with the run.

    Args:
        last: the last update of the run; None if it is not known yet.
    """
    warmup = schedule.warmup
    if schedule.decay_updates is not None:
        last = schedule.decay_updates
    elif last is None:
        return None
    else:
        # In a run that is shorter than two warm-ups, the rate grows in the first half.
        warmup = max(1, min(warmup, last // 2))
    if schedule.decay == "wsd":
        return DecaySpan(max(warmup, last - round(schedule.decay_share * last)), last)
    return DecaySpan(warmup, last)


def peak_update(schedule: ScheduleConfig, last: int | None = None) -> int:
    """The update with the highest learning rate: where the warm-up ends, in a short run before it.

    Args:
        last: the last update of the run, as far as it is known.
    """
    span = None if schedule.decay == "inverse_sqrt" else decay_span(schedule, last)
    highest = schedule.warmup if span is None else min(schedule.warmup, span.first)
    return highest if last is None else min(highest, max(1, last))
