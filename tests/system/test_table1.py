"""examples/table1: what it counts and fits is right; how long layers take is not asserted."""

import importlib
from pathlib import Path

import pytest
import torch

from nmt.errors import ConfigError
from tests.kit.examples import example_command

TABLE1 = Path(__file__).parents[2] / "examples" / "table1"


@pytest.fixture(scope="module")
def of_table1():
    """Imports a module of the example, which is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TABLE1)
        yield importlib.import_module


@pytest.fixture
def table1(of_table1, capsys):
    command = example_command(TABLE1)
    return lambda *words: command(*words) or capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "lengths"),
    [
        (("--length", 27), [1, 27, 26, 3, 2]),
        pytest.param(("--length", 28, "--neighbours", 5, "--kernel", 5), [1, 28, 14, 3, 6], marks=pytest.mark.slow),
    ],
)
def test_the_longest_paths_are_those_of_the_table(table1, options, lengths):
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table1("paths", *options).splitlines()[2:]]
    names = ["self-attention", "recurrent", "convolutional", "convolutional, dilated", "self-attention (restricted)"]
    assert [(name, expected, measured) for name, _, expected, measured in rows] == [
        (name, str(length), str(length)) for name, length in zip(names, lengths, strict=True)
    ]


def test_a_longest_path_is_searched_for(of_table1):
    """Ten positions per operation need ten operations for a hundred positions."""

    def stack(x: torch.Tensor, operations: int) -> torch.Tensor:
        reach = 10 * operations
        return x + (torch.roll(x, reach, 1) if reach < x.shape[1] else x.sum(1, keepdim=True))

    assert of_table1("path_lengths").longest_path(stack, 101) == 10


def test_exponents_are_fitted_to_the_larger_half(of_table1):
    measuring = of_table1("measuring")
    measured = [
        measuring.Measurement(size, seconds=3e-9 * size**2 + (1.0 if size < 64 else 0.0), megabytes=size / 5)
        for size in (8, 16, 32, 64, 128, 256)
    ]
    assert measuring.exponent(measured, lambda one: one.seconds) == pytest.approx(2)
    assert measuring.exponent(measured, lambda one: one.megabytes) == pytest.approx(1)


@pytest.mark.slow
def test_restricted_attention_keeps_linear_memory_and_full_attention_quadratic(of_table1):
    measuring, layer_types = of_table1("measuring"), of_table1("layer_types")
    kept = {
        layer.name: measuring.exponent(measuring.over_lengths(layer, (256, 512, 1_024), 8), lambda one: one.megabytes)
        for layer in layer_types.layer_types(8, 3)
    }
    assert kept["self-attention"] == pytest.approx(2, abs=0.05)
    assert kept["self-attention (restricted)"] == pytest.approx(1, abs=0.05)
    assert kept["convolutional"] == pytest.approx(1, abs=0.3)


def test_layers_keep_the_shape_of_a_sequence(of_table1):
    for layer in of_table1("layer_types").layer_types(8, 3):
        assert layer.make(40, 6)(torch.randn(1, 40, 6)).shape == (1, 40, 6)


def test_the_gradient_of_the_softmax_vanishes_without_the_scale(of_table1):
    small, large = of_table1("softmax_scale").gradient_norms((8, 512))
    assert small[1] == pytest.approx(large[1], rel=0.05)
    assert large[2] < large[1] / 2


def test_an_even_kernel_is_refused(table1):
    with pytest.raises(ConfigError, match="expected an odd number, got 4"):
        table1("paths", "--kernel", 4)
