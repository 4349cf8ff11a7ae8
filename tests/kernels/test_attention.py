"""Every way to compute attention gives what equation 1 gives, and its gradients."""

import pytest
import torch

from nmt.kernels.attention import cpu_attention, fused_attention, two_product_attention
from nmt.kernels.policy import choose_kernels
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


@pytest.mark.parametrize(("sentences", "queries", "keys"), [(1, 4, 40), (3, 1, 20), (2, 30, 30)])
def test_inference_in_bf16_rounds_no_more_than_two_products(sentences, queries, keys):
    torch.manual_seed(0)
    query, key, value = (torch.randn(sentences, 2, length, 16).bfloat16() for length in (queries, keys, keys))
    mask = torch.zeros(sentences, 1, 1, keys)
    mask[-1, ..., keys // 2 :] = -torch.inf
    exact = attention(*(tensor.double() for tensor in (query, key, value, mask)))
    # As in a search: keys and values are parts of longer buffers, and the mask is in fp32.
    key, value = (torch.cat([tensor, tensor], dim=2)[:, :, :keys] for tensor in (key, value))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        off = [
            (form(query, key, value, mask, 0.0).double() - exact).norm() / exact.norm()
            for form in (cpu_attention, two_product_attention)
        ]
    assert off[0] < 0.01
    assert off[0] <= off[1] * 1.2


def test_only_inference_in_bf16_takes_the_fused_kernel(monkeypatch):
    monkeypatch.setattr("nmt.kernels.attention.fused_attention", lambda *arguments: torch.tensor(0.0))

    def is_fused(dtype: torch.dtype, dropout: float = 0.0, value_size: int = 4) -> bool:
        tensors = (tensor.detach().to(dtype) for tensor in example(value_size=value_size))
        return cpu_attention(*tensors, dropout).dim() == 0

    assert not is_fused(torch.bfloat16)  # it may learn
    with torch.inference_mode():
        assert is_fused(torch.bfloat16)
        assert not is_fused(torch.bfloat16, dropout=0.1)
        assert not is_fused(torch.bfloat16, value_size=3)
        assert not is_fused(torch.float32)


def test_a_gpu_that_computes_deterministically_takes_no_fused_kernel():
    gpu = torch.device("cuda")
    assert choose_kernels(gpu).attention is fused_attention
    assert choose_kernels(gpu, deterministic=True).attention is two_product_attention
