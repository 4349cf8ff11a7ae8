"""What is taken from torch's private interface is there, and what stands in for it gives the same."""

import pytest
import torch

from nmt.kernels import private

OPERATIONS = {
    "torch.ops.aten._softmax_backward_data": lambda: torch.ops.aten._softmax_backward_data,
    "torch.ops.mkldnn._reorder_linear_weight": lambda: torch.ops.mkldnn._reorder_linear_weight,
    "torch.ops.mkldnn._linear_pointwise.default": lambda: torch.ops.mkldnn._linear_pointwise.default,
    "torch.ops.quantized.linear_prepack": lambda: torch.ops.quantized.linear_prepack,
    "torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default": lambda: (
        torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
    ),
    "torch._make_per_channel_quantized_tensor": lambda: torch._make_per_channel_quantized_tensor,
    "torch.ops.onednn.qlinear_prepack": lambda: torch.ops.onednn.qlinear_prepack,
    "torch.ops.onednn.qlinear_pointwise.default": lambda: torch.ops.onednn.qlinear_pointwise.default,
    "torch._foreach_lerp_": lambda: torch._foreach_lerp_,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_still_has_it(name):
    """Where this fails, a new torch has dropped an operation: what stands in for it is used, and may be slower."""
    assert OPERATIONS[name]() is not None


def test_the_gradient_of_a_softmax_is_that_of_autograd():
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    weights, gradient = torch.softmax(scores, -1), torch.randn(3, 5, dtype=torch.float64)
    [expected] = torch.autograd.grad(weights, scores, gradient)
    for compute in (private.softmax_gradient, private.plain_softmax_gradient):
        found = compute(gradient, weights.detach())
        torch.testing.assert_close(found, expected)


def test_without_onednn_a_weight_is_not_ordered(monkeypatch):
    weight, x, bias = torch.randn(6, 4), torch.randn(3, 4), torch.randn(6)
    ordered = private.ordered_weight(weight)
    assert ordered is not None
    torch.testing.assert_close(private.ordered_product(x, ordered, bias), x @ weight.T + bias)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert private.ordered_weight(weight) is None


@pytest.mark.parametrize("is_there", [True, False])
def test_tensors_move_by_a_share_of_their_distance(is_there, monkeypatch):
    if not is_there:
        monkeypatch.delattr(torch, "_foreach_lerp_")
    tensors, goals = [torch.zeros(2), torch.ones(3)], [torch.ones(2), torch.full((3,), 5.0)]
    private.move_towards(tensors, goals, 0.25)
    torch.testing.assert_close(tensors, [torch.full((2,), 0.25), torch.full((3,), 2.0)])
