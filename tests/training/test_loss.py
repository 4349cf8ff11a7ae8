"""The loss against its definition in float64, and its gradient against finite differences."""

import pytest
import torch
from torch.nn import functional

from nmt.training.loss import label_smoothed_loss, r_drop_loss


def loss_of(logits, target, smoothing):
    return label_smoothed_loss(logits.flatten(0, -2), target.flatten(), smoothing)


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
    losses = loss_of(logits, target, smoothing)
    assert losses.smoothed.item() == pytest.approx(defined(logits, target, smoothing).item(), rel=1e-12)
    assert losses.cross_entropy.item() == pytest.approx(defined(logits, target, 0.0).item(), rel=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_equals_finite_differences_and_is_zero_at_padding(smoothing):
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 7, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([[3, 6, 0], [1, 2, 5]])
    assert torch.autograd.gradcheck(lambda x: loss_of(x, target, smoothing).smoothed, (logits,))
    loss_of(logits, target, smoothing).smoothed.backward()
    assert not logits.grad[0, 2].any()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 4e-3), (torch.float32, 1e-5)])
def test_log_probabilities_are_precise_whatever_the_logits_come_in(dtype, tolerance):
    torch.manual_seed(0)
    logits = (torch.randn(4, 50, 8000) * 4).to(dtype)
    target = torch.randint(1, 8000, (4, 50))
    target[2, 30:] = 0
    exact = logits.double().requires_grad_()
    expected = defined(exact, target, 0.1)
    expected.backward()
    logits.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
        losses = loss_of(logits, target, 0.1)
    losses.smoothed.backward()
    assert losses.smoothed.dtype == torch.float32
    assert losses.smoothed.item() == pytest.approx(expected.item(), rel=1e-6)
    assert losses.cross_entropy.item() == pytest.approx(defined(exact, target, 0.0).item(), rel=1e-6)
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=tolerance, atol=1e-9)


def test_the_gradient_takes_the_place_of_logits_that_are_no_leaf():
    torch.manual_seed(0)
    x, weight = torch.randn(6, 4, requires_grad=True), torch.randn(4, 9)
    target = torch.randint(1, 9, (6,))
    logits = x @ weight
    before = logits.detach().clone()
    gradients = []
    logits.register_hook(gradients.append)
    (loss_of(logits, target, 0.1).smoothed * 0.25).backward()
    assert gradients[0].data_ptr() == logits.data_ptr()
    leaf = before.clone().requires_grad_()
    (loss_of(leaf.view(2, 3, 9), target.view(2, 3), 0.1).smoothed * 0.25).backward()
    assert torch.equal(leaf.detach(), before)
    torch.testing.assert_close(leaf.grad, gradients[0])
    torch.testing.assert_close(x.grad, leaf.grad @ weight.T)


def test_whoever_else_needs_the_logits_in_the_backward_pass_is_told():
    logits = torch.randn(6, 9, requires_grad=True) * 2
    square = logits.square().sum()
    both = square + loss_of(logits, torch.randint(1, 9, (6,)), 0.1).smoothed
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        both.backward()


def test_r_drop_equals_its_definition():
    """Half of equation 4: two losses, and alpha times the mean of both Kullback-Leibler divergences."""
    torch.manual_seed(0)
    one, other = torch.randn(2, 3, 5, 11, dtype=torch.float64) * 2
    target = torch.randint(1, 11, (3, 5))
    target[0, 3:] = 0
    found = r_drop_loss(one.flatten(0, 1), other.flatten(0, 1), target.flatten(), 0.1, 5.0)
    log_p, log_q = torch.log_softmax(one, -1)[target != 0], torch.log_softmax(other, -1)[target != 0]
    divergences = [
        functional.kl_div(*pair, reduction="sum", log_target=True) for pair in ((log_p, log_q), (log_q, log_p))
    ]
    losses = defined(one, target, 0.1) + defined(other, target, 0.1)
    assert found.smoothed.item() == pytest.approx((losses + 5.0 * sum(divergences) / 2).item() / 2, rel=1e-12)
    cross_entropies = defined(one, target, 0.0) + defined(other, target, 0.0)
    assert found.cross_entropy.item() == pytest.approx(cross_entropies.item() / 2, rel=1e-12)


def test_the_gradient_of_r_drop_equals_finite_differences():
    torch.manual_seed(0)
    one, other = (torch.randn(6, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))
    target = torch.tensor([3, 6, 0, 1, 2, 5])
    assert torch.autograd.gradcheck(lambda *logits: r_drop_loss(*logits, target, 0.1, 5.0).smoothed, (one, other))
    # The same where the gradient takes the place of the logits.
    expected = torch.autograd.grad(r_drop_loss(one, other, target, 0.1, 5.0).smoothed, (one, other))
    found = torch.autograd.grad(r_drop_loss(one * 1.0, other * 1.0, target, 0.1, 5.0).smoothed, (one, other))
    torch.testing.assert_close(found, expected)
    assert not any(gradient[2].any() for gradient in found)
