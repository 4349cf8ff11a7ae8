"""Products with weights of 8 bits: near the exact ones, and for each row its own."""

import pytest
import torch

from nmt.kernels import int8, private
from nmt.kernels.int8 import FbgemmProduct, Int8Weight, OnednnProduct, fastest_int8_product, greatest_weight
from nmt.kernels.policy import choose_kernels

pytestmark = pytest.mark.skipif(
    "fbgemm" not in torch.backends.quantized.supported_engines, reason="needs an x86 processor"
)


FEW, MANY = 3, 40
"""Rows that FBGEMM multiplies, and rows that the faster library multiplies."""


@pytest.fixture(params=[FbgemmProduct, OnednnProduct])
def kind(request, monkeypatch):
    """The library that multiplies many rows."""
    if not int8._multiplies_right(request.param):
        pytest.skip("this torch or this processor has no such products")
    monkeypatch.setattr(int8, "fastest_int8_product", lambda *size: request.param)
    return request.param


@pytest.fixture
def choosing(monkeypatch):
    """Choose anew, and forget what was chosen."""
    caches = (fastest_int8_product, greatest_weight)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(("rows", "features", "outputs"), [(1, 16, 24), (4, 512, 512), (37, 64, 1_000), (256, 100, 7)])
def test_products_are_near_the_exact_ones(kind, rows, features, outputs):
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


def test_what_a_row_becomes_does_not_depend_on_the_others(kind):
    # Few rows may be multiplied by another library than many.
    weight, x = Int8Weight(random(300, 128), random(300)), random(50, 128)
    x[7] *= 1e4
    together = weight.multiply(x)
    for rows in (slice(0, 1), slice(3, 7), slice(8, 50)):
        assert torch.equal(weight.multiply(x[rows]), together[rows])


@pytest.mark.parametrize(("rows", "is_few"), [(1, True), (32, True), (33, False)])
def test_few_rows_are_multiplied_by_fbgemm(monkeypatch, rows, is_few):
    used = []
    for library in (FbgemmProduct, OnednnProduct):
        if not int8._multiplies_right(library):
            pytest.skip("there is only one library")

        def multiply(self, x_NI, library=library, original=library.multiply):
            used.append(library)
            return original(self, x_NI)

        monkeypatch.setattr(library, "multiply", multiply)
    monkeypatch.setattr(int8, "fastest_int8_product", lambda *size: OnednnProduct)
    weight = Int8Weight(random(24, 32), None)
    used.clear()  # of the trial of the greatest weight
    weight.multiply(random(rows, 32))
    weight.multiply(random(1, rows, 32))
    assert used == [FbgemmProduct if is_few else OnednnProduct] * 2


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_the_greatest_numbers_do_not_overflow(kind, rows):
    # All products as large as they can be: where sums have 16 bits, two of weights up to 127 would be cut off.
    features = 512
    x, weight = torch.full((rows, features), 3.0), torch.full((16, features), 0.5)
    x[1:] = -3.0
    found = Int8Weight(weight, None).multiply(x)
    expected = torch.full((rows, 16), -1.5 * features)
    expected[0] *= -1
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("greatest", [127, 63])
def test_both_libraries_get_the_same_weights_in_the_range_that_the_sums_of_both_allow(monkeypatch, kind, greatest):
    given = []

    def noting(library):
        class Noting(library):
            def __init__(self, weight_OI, scale_O):
                given.append(weight_OI)
                super().__init__(weight_OI, scale_O)

        return Noting

    few, many = noting(FbgemmProduct), noting(kind)
    monkeypatch.setattr(int8, "FbgemmProduct", few)
    monkeypatch.setattr(int8, "fastest_int8_product", lambda *size: many)
    monkeypatch.setattr(int8, "greatest_weight", lambda library: greatest if library is many else 127)
    weight = random(5, 32) * torch.logspace(-2, 2, 5)[:, None]
    found = Int8Weight(weight, None)
    expected = (weight / weight.abs().amax(dim=1, keepdim=True) * greatest).round()
    assert len(given) == 2
    for rounded in given:
        assert rounded.abs().amax(dim=1).tolist() == [greatest] * 5
        assert torch.equal(rounded, expected.to(torch.int8))
    if greatest > min(map(greatest_weight, (FbgemmProduct, kind))):
        pytest.skip("this processor's sums do not allow such weights")
    for rows in (FEW, MANY):
        x = random(rows, 32)
        exact = x.double() @ weight.double().T
        error = (found.multiply(x).double() - exact).abs() / weight.double().norm(dim=1) / x.norm(dim=1)[:, None]
        assert error.max() < 0.02


@pytest.mark.parametrize(("rows", "features", "outputs"), [(1, 512, 512), (40, 256, 64), (200, 100, 1_000)])
def test_both_libraries_give_the_same_bits(rows, features, outputs):
    if not int8._multiplies_right(OnednnProduct):
        pytest.skip("there is only one library")
    greatest = min(map(greatest_weight, (FbgemmProduct, OnednnProduct)))
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randint(-greatest, greatest + 1, (outputs, features), generator=generator).to(torch.int8)
    x = torch.randint(-127, 128, (rows, features), generator=generator).float()
    scale = random(outputs).abs().double()
    found = FbgemmProduct(weight, scale).multiply(x)
    assert torch.equal(found, OnednnProduct(weight, scale).multiply(x))
    torch.testing.assert_close(found.double(), x.double() @ (weight * scale[:, None]).T, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("cut_off_at", "greatest"), [(None, 127), (32_767.0, 63)])
def test_the_greatest_weight_is_tried(choosing, cut_off_at, greatest):
    """Sums in 16 bits are imitated: each pair of products of 255 and a weight is cut off, then the pairs are added."""

    class Sums:
        def __init__(self, weight_OI, scale_O):
            self.weight = weight_OI[0, 0].item()

        def multiply(self, x_NI):
            pair = 2.0 * 255 * self.weight
            pair = pair if cut_off_at is None else min(pair, cut_off_at)
            return torch.full((len(x_NI), 16), x_NI.shape[1] / 2 * (pair - 2 * 128 * self.weight))

    assert greatest_weight(Sums) == greatest


@pytest.mark.parametrize(
    ("for_base", "for_small", "faster", "uses_onednn"),
    [
        (3.0, 3.0, OnednnProduct, True),
        (3.0, 1.05, FbgemmProduct, True),  # each size of a weight has its own figure
        (1.05, 3.0, FbgemmProduct, False),
        (0.5, 0.5, FbgemmProduct, False),
    ],
)
def test_the_faster_library_is_taken(monkeypatch, choosing, for_base, for_small, faster, uses_onednn):
    small = (256, 64)
    monkeypatch.setattr(int8, "remembered", lambda name, measure: for_small if name.endswith("256 by 64") else for_base)
    monkeypatch.setattr(int8, "_multiplies_right", lambda kind: True)
    assert fastest_int8_product(*small) is faster
    # oneDNN compiles a product for each number of rows, so there must be few of them if any weight is multiplied by it.
    assert (choose_kernels(None, torch.int8).rows_per_octave is not None) is uses_onednn


@pytest.mark.parametrize("error", [RuntimeError("no primitive"), AttributeError("no such operation")])
def test_without_onednn_fbgemm_multiplies(monkeypatch, choosing, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(private, "onednn_int8_weight", fail)
    assert fastest_int8_product(512, 512) is FbgemmProduct


def test_a_library_that_cuts_off_even_small_sums_is_not_taken(monkeypatch, choosing):
    monkeypatch.setattr(
        private, "onednn_int8_product", lambda: lambda rows, packed, scale, zero: torch.zeros(len(rows), len(scale))
    )
    monkeypatch.setattr(int8, "remembered", lambda name, measure: 9.0)
    assert fastest_int8_product(512, 512) is FbgemmProduct


def test_the_libraries_are_timed(kind):
    assert int8.onednn_speedup(16, 8) > 0


@pytest.mark.parametrize(("speedups", "found"), [([0.001, 9.0], 0.001), ([0.1, 9.0], 9.0)])
def test_a_library_that_is_hopeless_with_few_rows_is_not_tried_with_many(speedups, found, monkeypatch, choosing):
    remaining = iter(speedups)
    monkeypatch.setattr(int8, "speedup", lambda slower, faster: next(remaining))
    monkeypatch.setattr(int8, "remembered", lambda name, measure: measure())
    assert int8.onednn_speedup(16, 8) == found


@pytest.mark.parametrize("rows", [FEW, MANY])
def test_a_row_or_a_weight_of_zeros_gives_the_bias(kind, rows):
    bias = random(24)
    assert torch.equal(Int8Weight(random(24, 16), bias).multiply(torch.zeros(rows, 16)), bias.expand(rows, -1))
    assert torch.equal(Int8Weight(torch.zeros(24, 16), bias).multiply(random(rows, 16)), bias.expand(rows, -1))


def test_rows_that_have_a_gradient_are_multiplied_without_it():
    weight, x = Int8Weight(random(24, 16), random(24)), random(FEW, 16)
    found = weight.multiply(x.clone().requires_grad_())
    assert torch.equal(found, weight.multiply(x))
    assert not found.requires_grad


def test_nothing_else_in_the_process_changes():
    before = torch.backends.quantized.engine
    Int8Weight(random(8, 8), None)
    assert torch.backends.quantized.engine == before
