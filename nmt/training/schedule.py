"""Learning rate as a pure function of the update."""

from __future__ import annotations

from nmt.config import ScheduleConfig


def learning_rate(update: int, schedule: ScheduleConfig, d_model: int) -> float:
    """d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), times a factor (section 5.3, equation 3).

    With a linear decay the rate falls from the same peak in a straight line, to reach 0 one update behind the last.

    Args:
        update: counted from 1.
    """
    scale = schedule.factor * d_model**-0.5
    growing = update * schedule.warmup**-1.5
    if schedule.decay_updates is None:
        return float(scale * min(update**-0.5, growing))
    left = max(0, schedule.decay_updates + 1 - update) / (schedule.decay_updates + 1 - schedule.warmup)
    return float(scale * min(growing, schedule.warmup**-0.5 * left))


def peak_learning_rate(schedule: ScheduleConfig, d_model: int) -> float:
    """The greatest rate, reached at the end of the warmup."""
    return learning_rate(schedule.warmup, schedule, d_model)
