"""Every way to compute attention gives what equation 1 gives, and its gradients."""

import pytest
import torch

from nmt.kernels.attention import cpu_attention, fused_attention, two_product_attention
from nmt.model.attention import attention


def example(key_size: int = 4, value_size: int = 3):
    """Two sentences, three heads, five queries, six keys; the last key of the second sentence is padding."""
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(2, 3, length, size, dtype=torch.float64, requires_grad=True)
        for length, size in ((5, key_size), (6, key_size), (6, value_size))
    )
    mask = torch.zeros(2, 1, 1, 6, dtype=torch.float64)
    mask[1, :, :, 5] = -torch.inf
    return query, key, value, mask


@pytest.mark.parametrize("kernel", [fused_attention, two_product_attention, cpu_attention])
@pytest.mark.parametrize("is_masked", [True, False])
def test_values_and_gradients_are_those_of_the_equation(kernel, is_masked):
    query, key, value, mask = example()
    found, expected = (compute(query, key, value, mask if is_masked else None, 0.0) for compute in (kernel, attention))
    torch.testing.assert_close(found, expected)
    upstream = torch.randn_like(found)
    gradients = [torch.autograd.grad(result, (query, key, value), upstream) for result in (found, expected)]
    torch.testing.assert_close(*gradients)
    with torch.no_grad():
        torch.testing.assert_close(kernel(query, key, value, mask if is_masked else None, 0.0), found.detach())


@pytest.mark.parametrize("compute", [attention, two_product_attention, cpu_attention])
def test_gradients_with_dropout_equal_finite_differences(compute):
    query, key, value, mask = example()

    def mixed(*arguments):
        torch.manual_seed(3)
        return compute(*arguments, mask, 0.4)

    assert torch.autograd.gradcheck(mixed, (query, key, value))


def test_a_key_without_weight_gets_no_gradient():
    query, key, value, mask = example()
    two_product_attention(query, key, value, mask, 0.0).sum().backward()
    assert key.grad[1, :, 5].abs().max() == 0
    assert value.grad[1, :, 5].abs().max() == 0
    assert value.grad[0, :, 5].abs().min() > 0


@pytest.mark.parametrize(("sentences", "queries", "keys"), [(1, 4, 40), (3, 1, 20), (2, 30, 30)])
@pytest.mark.parametrize("value_size", [16, 8])
def test_attention_of_a_search_in_bf16_rounds_no_more_than_two_products(sentences, queries, keys, value_size):
    torch.manual_seed(0)
    shapes = ((queries, 16), (keys, 16), (keys, value_size))
    query, key, value = (torch.randn(sentences, 2, length, size).bfloat16() for length, size in shapes)
    mask = torch.zeros(sentences, 1, 1, keys).bfloat16()
    mask[-1, ..., keys // 2 :] = -torch.inf
    exact = attention(*(tensor.double() for tensor in (query, key, value, mask)))
    with torch.no_grad():
        off = [
            (form(query, key, value, mask, 0.0).double() - exact).norm() / exact.norm()
            for form in (cpu_attention, two_product_attention)
        ]
    assert off[0] < 0.01
    assert off[0] <= off[1] * 1.2


def test_only_searches_in_bf16_take_the_fused_kernel(monkeypatch):
    monkeypatch.setattr(
        "nmt.kernels.attention.fused_attention", lambda query, key, value, mask, dropout: torch.tensor(0.0)
    )
    query, key, value, mask = (tensor.detach() for tensor in example(value_size=4))

    def is_fused(dtype: torch.dtype, dropout: float = 0.0) -> bool:
        return cpu_attention(*(tensor.to(dtype) for tensor in (query, key, value, mask)), dropout).dim() == 0

    assert not is_fused(torch.bfloat16)  # it may learn
    with torch.inference_mode():
        assert is_fused(torch.bfloat16)
        assert not is_fused(torch.bfloat16, 0.1)
        assert not is_fused(torch.float32)
