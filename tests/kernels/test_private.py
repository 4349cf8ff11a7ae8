"""What is taken from torch's private interface is there."""

import pytest
import torch

from nmt.kernels import private

OPERATIONS = {
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
    "torch.distributed.distributed_c10d._set_pg_timeout": lambda: torch.distributed.distributed_c10d._set_pg_timeout,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_torch_still_has_it(name):
    """Where this fails, a new torch has dropped an operation."""
    assert OPERATIONS[name]() is not None


def test_without_onednn_a_weight_is_not_ordered(monkeypatch):
    weight, x, bias = torch.randn(6, 4), torch.randn(3, 4), torch.randn(6)
    ordered = private.ordered_weight(weight)
    assert ordered is not None
    torch.testing.assert_close(private.ordered_product(x, ordered, bias), x @ weight.T + bias)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert private.ordered_weight(weight) is None
