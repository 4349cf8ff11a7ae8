"""The limits of a run, and the update that will reach them."""

import pytest

from nmt.config import parse_config
from nmt.training.progress import Ending, Progress
from nmt.training.schedule import learning_rate
from nmt.training.stopping import Limits


def config(schedule=None, **training):
    values = {"schedule": schedule or {}, "training": {"max_updates": None, "patience": None} | training}
    return parse_config(values, name="test")


def test_the_last_update_is_that_of_the_first_limit():
    assert Limits(config(), Progress(update=10, seconds=5)).last_update() is None
    assert Limits(config(max_updates=70), Progress(update=10, seconds=5)).last_update() == 70
    in_a_minute = config(max_minutes=1)
    assert Limits(in_a_minute, Progress()).last_update() is None  # there is no speed yet
    assert Limits(in_a_minute, Progress(update=10, seconds=5)).last_update() == 120
    assert Limits(in_a_minute, Progress(update=10, seconds=7)).last_update() == 86  # 85 take less than the minute
    assert Limits(config(max_minutes=1, max_updates=70), Progress(update=10, seconds=5)).last_update() == 70
    assert Limits(config(max_minutes=1, max_updates=70), Progress(update=10, seconds=10)).last_update() == 60


def test_the_last_validation_takes_its_time_from_the_updates():
    progress = Progress(update=90, seconds=45, validation_seconds=15)
    limits = Limits(config(max_minutes=1), progress)
    assert limits.reached() is Ending.MINUTES
    assert limits.last_update() == 90
    progress.validation_seconds = 50  # most of the time: the limit would leave nothing to train
    assert limits.reached() is None
    assert limits.last_update() == 120


@pytest.mark.parametrize("decay", ["linear", "cosine", "wsd"])
@pytest.mark.parametrize(
    "pace",
    [
        pytest.param(lambda update: 0.1, id="steady"),
        pytest.param(lambda update: 3.0, id="slow: shorter than its warm-up"),
        pytest.param(lambda update: 0.2 if update > 250 else 0.1, id="resumed on a machine half as fast"),
        pytest.param(lambda update: 0.05 if update > 250 else 0.1, id="resumed on one twice as fast"),
        pytest.param(lambda update: 8.0 if update == 400 else 0.1, id="interrupted by a slow save"),
        pytest.param(lambda update: 10.0 if update == 1 else 0.1, id="with a slow start"),
        pytest.param(lambda update: 1.1 if update % 100 == 0 else 0.1, id="with validations"),
    ],
)
def test_the_rate_lands_when_the_time_ends(decay, pace):
    settings = config({"warmup": 100, "decay": decay}, max_minutes=1)
    progress, rates = Progress(), []
    limits = Limits(settings, progress)
    while limits.reached() is None:
        rates.append(learning_rate(progress.update + 1, settings.schedule, 64, limits.last_update()))
        progress.update += 1
        progress.seconds += pace(progress.update)
    peak, top = learning_rate(100, settings.schedule, 64), rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[-1] < max(rates) * max(0.03, 5 / len(rates))
    steepest = max(before - after for before, after in zip(rates[top:], rates[top + 1 :], strict=False))
    assert steepest < 0.2 * peak  # no cliff


def test_a_resumed_run_knows_how_long_a_validation_takes():
    settings = config({"warmup": 100, "decay": "linear"}, max_minutes=1)
    before = Progress(update=300, seconds=30, validation_seconds=10)
    after = Progress.from_values(before.values())
    assert Limits(settings, after).last_update() == Limits(settings, before).last_update() == 500
