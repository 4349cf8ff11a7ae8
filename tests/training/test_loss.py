"""The loss against its definition in float64, and its gradient against finite differences."""

import pytest
import torch

from nmt.training.loss import label_smoothed_loss


def defined(logits, target, smoothing):
    """-sum over pieces of q · log p, written out."""
    log_p = torch.log_softmax(logits.double(), -1)
    q = torch.full_like(log_p, smoothing / (logits.shape[-1] - 1)).scatter(-1, target[..., None], 1 - smoothing)
    return -(q * log_p).sum(-1)[target != 0].sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_equals_its_definition(smoothing):
    torch.manual_seed(0)
    logits, target = torch.randn(3, 5, 11, dtype=torch.float64) * 4, torch.randint(1, 11, (3, 5))
    target[0, 3:] = 0
    losses = label_smoothed_loss(logits, target, smoothing)
    assert losses.smoothed.item() == pytest.approx(defined(logits, target, smoothing).item(), rel=1e-12)
    assert losses.cross_entropy.item() == pytest.approx(defined(logits, target, 0.0).item(), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_equals_finite_differences_and_is_zero_at_padding(smoothing):
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[3, 6, 0], [1, 2, 5]])
    assert torch.autograd.gradcheck(lambda x: label_smoothed_loss(x, target, smoothing).smoothed, (logits,))
    label_smoothed_loss(logits, target, smoothing).smoothed.backward()
    assert not logits.grad[0, 2].any()
