"""Low-rank adapters: nothing at first, only they learn, and the merged model is the model with them."""

import pytest
import torch

from nmt.config import ModelConfig
from nmt.model.adapters import add_adapters, merged
from nmt.model.linear import Linear
from nmt.model.transformer import Transformer

CONFIG = ModelConfig(encoder_layers=2, decoder_layers=2, d_model=16, d_ff=32, heads=4, dropout=0, norm="pre")
SOURCE, TARGET = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 10], [2, 11, 0]])


@pytest.fixture
def plain() -> Transformer:
    torch.manual_seed(0)
    return Transformer(CONFIG, 30).double()


def copied(model: Transformer) -> Transformer:
    """A plain model with the weights that are saved."""
    other = Transformer(CONFIG, 30).double()
    other.load_state_dict(merged(model.state_dict()))
    return other


def logits(model: Transformer) -> torch.Tensor:
    return model(model.packed(SOURCE), model.packed(TARGET))


def test_adapters_change_nothing_before_they_learn(plain):
    before, weights = logits(plain), {name: tensor.clone() for name, tensor in plain.state_dict().items()}
    add_adapters(plain, 3)
    assert torch.equal(logits(plain.double()), before)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in merged(plain.state_dict()).items())


def test_only_adapters_get_gradients(plain):
    add_adapters(plain, 3)
    logits(plain.double()).square().sum().backward()
    learning = {name for name, parameter in plain.named_parameters() if parameter.grad is not None}
    matrices = [name for name, module in plain.named_modules() if isinstance(module, Linear)]
    assert len(matrices) == 2 * 4 + 2 * 6
    assert learning == {f"{name}.adapter.{part}" for name in matrices for part in ("down", "up")}


@pytest.mark.parametrize("rank", [1, 8])
def test_the_merged_model_is_the_model_with_adapters(plain, rank):
    before = logits(plain)
    add_adapters(plain, rank)
    for name, parameter in plain.double().named_parameters():
        if name.endswith(".up"):
            torch.nn.init.normal_(parameter)
    found = logits(plain)
    assert (found - before).abs().max() > 0.1
    torch.testing.assert_close(logits(copied(plain)), found, rtol=0, atol=1e-12)
