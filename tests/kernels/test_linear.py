"""Products with weights of 8 bits: near the exact ones, and for each row its own."""

import pytest
import torch

from nmt.kernels import private
from nmt.kernels.linear import Int8Weight

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="needs an x86 processor"
)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(("rows", "features", "outputs"), [(1, 16, 24), (4, 512, 512), (37, 64, 1_000), (256, 100, 7)])
def test_products_are_near_the_exact_ones(rows, features, outputs):
    # Features and rows of very different size, since each has a scale of its own.
    weight = random(outputs, features) * torch.logspace(-3, 2, outputs)[:, None]
    x = random(rows, features) * torch.logspace(2, -4, rows)[:, None]
    bias = random(outputs)
    exact = x.double() @ weight.double().T
    found = Int8Weight(weight, None).multiply(x)
    assert found.dtype == torch.float32
    error = (found.double() - exact).abs() / (x.double().norm(dim=1)[:, None] * weight.double().norm(dim=1))
    assert error.max() < 0.01
    with_bias = Int8Weight(weight, bias).multiply(x)
    torch.testing.assert_close(with_bias, found + bias)


def test_what_a_row_becomes_does_not_depend_on_the_others():
    weight, x = Int8Weight(random(300, 128), random(300)), random(50, 128)
    x[7] *= 1e4
    together = weight.multiply(x)
    for rows in (slice(0, 1), slice(3, 7), slice(8, 50)):
        assert torch.equal(weight.multiply(x[rows]), together[rows])


def test_the_greatest_numbers_do_not_overflow():
    # All products as large as they can be: where sums have 16 bits, two of weights up to 127 would be cut off.
    features = 512
    x, weight = torch.full((2, features), 3.0), torch.full((16, features), 0.5)
    x[1] = -3.0
    found = Int8Weight(weight, None).multiply(x)
    torch.testing.assert_close(found, torch.tensor([[1.5], [-1.5]]) * features * torch.ones(2, 16), rtol=1e-5, atol=0)


@pytest.mark.parametrize(("are_wide", "greatest"), [(True, 127), (False, 63)])
def test_rounded_weights_use_the_range_that_the_sums_allow(monkeypatch, are_wide, greatest):
    monkeypatch.setattr(private, "int8_sums_are_wide", lambda: are_wide)
    weight = random(5, 32) * torch.logspace(-2, 2, 5)[:, None]
    [packed] = [value for value in vars(Int8Weight(weight, None)).values() if isinstance(value, torch.ScriptObject)]
    rounded = packed.unpack()[0].int_repr()
    assert rounded.abs().amax(dim=1).tolist() == [greatest] * 5
    expected = (weight / weight.abs().amax(dim=1, keepdim=True) * greatest).round()
    assert torch.equal(rounded, expected.to(torch.int8))


def test_a_row_or_a_weight_of_zeros_gives_the_bias():
    bias = random(24)
    assert torch.equal(Int8Weight(random(24, 16), bias).multiply(torch.zeros(3, 16)), bias.expand(3, -1))
    assert torch.equal(Int8Weight(torch.zeros(24, 16), bias).multiply(random(3, 16)), bias.expand(3, -1))


def test_nothing_else_in_the_process_changes():
    before = torch.backends.quantized.engine
    Int8Weight(random(8, 8), None)
    assert torch.backends.quantized.engine == before
