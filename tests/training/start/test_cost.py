"""The operations of training, counted by torch, for pairs of different lengths."""

import numpy as np
import pytest

from nmt.machine.device import choose_hardware
from nmt.training.start import cost
from nmt.training.start.cost import flops_of_pairs, matrix_rate, training_flops


@pytest.mark.parametrize("changes", [[], ["training.r_drop=1"], ["model.attention=additive"], ["model.d_k=5"]], ids=str)
def test_operations_of_pairs_are_the_sum_of_those_of_each_pair(settled, changes):
    config = settled(*changes)
    source, target = np.array([1, 30, 7, 7, 100]), np.array([2, 40, 3, 7, 90])
    alone = [training_flops(config, 1, s, t) for s, t in zip(source.tolist(), target.tolist(), strict=True)]
    assert flops_of_pairs(config, source, target) == pytest.approx(sum(alone), rel=1e-9)


def test_padding_is_not_counted(settled):
    config = settled()
    one_length, two_lengths = np.array([20, 20]), np.array([20, 5])
    padded = training_flops(config, 2, 20, 20)
    assert flops_of_pairs(config, one_length, one_length) == pytest.approx(padded, rel=1e-9)
    assert flops_of_pairs(config, two_lengths, two_lengths) < 0.7 * padded


def test_r_drop_passes_over_each_pair_twice(settled):
    assert training_flops(settled("training.r_drop=0.5"), 3, 5, 7) == 2 * training_flops(settled(), 3, 5, 7)


def test_the_rate_of_matrices_is_that_of_the_median_trial(settled, monkeypatch):
    config, seconds = settled("model.d_ff=48"), iter([90.0, 5.0, 1.0, 4.0, 70.0, 2.0])  # the first one warms up
    monkeypatch.setattr(cost, "_multiply", lambda *factors: next(seconds))
    found = matrix_rate(config, choose_hardware("cpu", "fp32", 1), 600)
    assert found == 2 * 600 * config.model.d_model * 48 / 4
