"""Learning rate as a pure function of the update."""

from __future__ import annotations

from nmt.config import ScheduleConfig


def learning_rate(update: int, schedule: ScheduleConfig, d_model: int) -> float:
    """d_model^-0.5 · min(update^-0.5, update · warmup^-1.5), times a factor (section 5.3, equation 3).

    Args:
        update: counted from 1.
    """
    return float(schedule.factor * d_model**-0.5 * min(update**-0.5, update * schedule.warmup**-1.5))


def peak_learning_rate(schedule: ScheduleConfig, d_model: int) -> float:
    """The greatest rate, reached at the end of the warmup."""
    return learning_rate(schedule.warmup, schedule, d_model)
