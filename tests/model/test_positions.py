"""Vectors of positions: the paper's, and those of other implementations."""

import math

import pytest
import torch

from nmt.config import ModelConfig
from nmt.model.positions import fixed_positions


def table(positions, d_model=6, length=50, first_position=0):
    config = ModelConfig(
        d_model=d_model, heads=1, positions=positions, max_positions=length, first_position=first_position
    )
    return fixed_positions(config)


def check(found, expected):
    for position, row in enumerate(found.tolist()):
        assert row == pytest.approx(expected(position), abs=1e-12)


def test_sinusoids_interleave_as_in_the_paper():
    def expected(position):
        angles = [position / 10_000 ** (2 * i / 6) for i in range(3)]
        return [function(angle) for angle in angles for function in (math.sin, math.cos)]

    check(table("sinusoidal"), expected)


def test_halves_hold_the_papers_sines_before_its_cosines():
    def expected(position):
        angles = [position / 10_000 ** (2 * i / 6) for i in range(3)]
        return [*map(math.sin, angles), *map(math.cos, angles)]

    check(table("sinusoidal_halves"), expected)


def test_tensor2tensors_rates_reach_the_last_one_a_pair_earlier():
    def expected(position):
        angles = [position * math.exp(-math.log(10_000) / 2 * i) for i in range(3)]
        return [*map(math.sin, angles), *map(math.cos, angles)]

    check(table("tensor2tensor"), expected)


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "tensor2tensor"])
def test_the_first_position_shifts_the_table(positions):
    assert torch.equal(table(positions, length=50, first_position=2), table(positions, length=52)[2:])
