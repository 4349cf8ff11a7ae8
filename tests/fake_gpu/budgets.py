"""Launches do not grow, and estimates of memory hold, for models of full size on a fake GPU."""

import pytest

from tests.fake_gpu.budget import step_budget, update_budget

MOST_OF_UPDATE, MOST_OF_STEP = 1_050, 165
"""Kernels of an update of one micro-batch, and of a step. Lower them with what is counted."""

BIG = pytest.param("big", marks=pytest.mark.slow)


@pytest.mark.parametrize("preset", ["base", BIG])
@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_an_update(preset, ranks):
    found = update_budget(preset, 3_125 * ranks, ranks)
    assert found.launches.total() <= MOST_OF_UPDATE, found.launches
    assert found.kept <= found.estimate <= 1.02 * found.kept
    assert found.peak > found.estimate


@pytest.mark.parametrize("preset", ["base", BIG])
@pytest.mark.parametrize(
    ("sentences", "beam"), [*(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((1, 4), (64, 1))), (64, 4)]
)
def test_a_step(preset, sentences, beam):
    found = step_budget(preset, sentences, beam)
    assert found.launches <= MOST_OF_STEP
    assert found.peak <= found.estimate <= 1.4 * found.peak
