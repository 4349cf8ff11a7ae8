"""Dropout keeps the mean, the rate and the gradient's mask."""

import pytest
import torch

from nmt.config import ModelConfig
from nmt.kernels.dropout import Dropout, dropout
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.model.transformer import Transformer


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
def test_rate_and_mean(probability):
    torch.manual_seed(0)
    x = torch.ones(1001, 997)
    y = dropout(x, probability, training=True)
    assert (y == 0).float().mean().item() == pytest.approx(probability, abs=2e-3)
    assert y.mean().item() == pytest.approx(1.0, abs=2e-3)
    assert y.unique().numel() == 2


def test_neighbours_are_independent():
    torch.manual_seed(0)
    zero = (dropout(torch.ones(1_000_000), 0.5, training=True) == 0).float()
    for distance in (1, 2, 3, 4, 8):
        both = (zero[distance:] * zero[:-distance]).mean().item()
        assert both == pytest.approx(0.25, abs=2e-3)


def test_gradient_passes_where_the_value_did():
    torch.manual_seed(0)
    x = torch.ones(5, 7, requires_grad=True)
    y = dropout(x, 0.4, training=True)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_the_seed_decides():
    x = torch.ones(100)
    torch.manual_seed(3)
    first = dropout(x, 0.5, training=True)
    assert not torch.equal(first, dropout(x, 0.5, training=True))
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.5, training=True))


def test_identity_outside_training():
    x = torch.randn(4)
    assert dropout(x, 0.5, training=False) is x


def test_a_probability_next_to_one_keeps_a_finite_scale():
    y = dropout(torch.ones(64), 0.999_999, training=True)
    assert torch.isfinite(y).all()


def test_kernels_leave_a_model_in_its_mode():
    model = Transformer(ModelConfig(encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8, heads=1), 20).eval()
    accelerate(model, choose_kernels(torch.device("cpu")))
    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]
    assert len(dropouts) == 1 + 2 + 2  # of the embeddings; of a layer's residuals and of its feed-forward network
    assert not any(module.training for module in model.modules())
