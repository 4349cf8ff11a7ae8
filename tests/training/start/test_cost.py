"""The operations of training, counted by torch, for pairs of different lengths."""

import numpy as np
import pytest

from nmt.training.start.cost import flops_of_pairs, training_flops


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
