"""Dropout acts where section 5.4 says, once in each place and at the rate of that place.

The oracle is the model written plainly, with the masks that the model itself drew.
"""

import math

import pytest
import torch
from torch.nn import functional as F

from nmt.config import ModelConfig
from nmt.kernels import attention as attention_module
from nmt.kernels import dropout as dropout_module
from nmt.kernels.policy import accelerate, choose_kernels
from nmt.model.transformer import Transformer
from tests import on_padded

RATES = {"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.4}
# Of one length each, so that rows and sentences hold the same numbers in the same order.
SOURCE = torch.tensor([[4, 9, 5, 3], [8, 8, 6, 3]])
TARGET = torch.tensor([[2, 7, 11, 4, 9], [2, 5, 6, 10, 8]])


@pytest.fixture
def masks(monkeypatch) -> list[tuple[float, torch.Tensor]]:
    """Every mask that is drawn, in order, with its rate."""
    drawn = []
    keep_mask = dropout_module.keep_mask

    def recorded(x, probability):
        drawn.append((probability, keep_mask(x, probability)))
        return drawn[-1][1]

    for module in (dropout_module, attention_module):
        monkeypatch.setattr(module, "keep_mask", recorded)
    return drawn


def plain_logits(model: Transformer, masks: list[tuple[float, torch.Tensor]]) -> torch.Tensor:
    """Figure 1 with section 5.4, one line a sub-layer."""
    config = model.config
    left = iter(masks)

    def drop(x, rate):
        probability, mask = next(left)
        assert probability == rate
        return x * mask.view_as(x)

    def attend(module, query, memory, forbidden):
        sizes = [config.heads * config.key_size, config.heads * config.key_size, config.heads * config.value_size]
        weights, biases = module.query_key_value.weight.split(sizes), module.query_key_value.bias.split(sizes)
        q, k, v = (
            F.linear(x, weight, bias).unflatten(-1, (config.heads, -1)).transpose(1, 2)
            for x, weight, bias in zip((query, memory, memory), weights, biases, strict=True)
        )
        scores = (q @ k.transpose(-1, -2) / math.sqrt(config.key_size)).masked_fill(forbidden, -torch.inf)
        mixed = drop(scores.softmax(-1), RATES["attention_dropout"]) @ v
        return F.linear(mixed.transpose(1, 2).flatten(2), module.output.weight, module.output.bias)

    def feed_forward(module, x):
        hidden = F.linear(x, module.inner.weight, module.inner.bias).relu()
        return F.linear(drop(hidden, RATES["activation_dropout"]), module.output.weight, module.output.bias)

    def normalised(norm, x):
        return F.layer_norm(x, (config.d_model,), norm.weight, norm.bias, config.norm_epsilon)

    def residual(norm, x, sublayer):
        if config.norm == "pre":
            return x + drop(sublayer(normalised(norm, x)), RATES["dropout"])
        return normalised(norm, x + drop(sublayer(x), RATES["dropout"]))

    def embed(tokens, positions):
        vectors = F.embedding(tokens, model.embedding.weight) * math.sqrt(config.d_model)
        return drop(vectors + positions.weight[: tokens.shape[1]], RATES["dropout"])

    def end(norm, x):
        return normalised(norm, x) if config.norm == "pre" else x

    nothing = torch.zeros(1, 1, dtype=torch.bool)
    ahead = torch.ones(TARGET.shape[1], TARGET.shape[1], dtype=torch.bool).triu(1)
    x = embed(SOURCE, model.source_positions)
    for layer in model.encoder:
        x = residual(layer.self_attention_norm, x, lambda x, a=layer.self_attention: attend(a, x, x, nothing))
        x = residual(layer.feed_forward_norm, x, lambda x, f=layer.feed_forward: feed_forward(f, x))
    memory = end(model.encoder_norm, x)
    y = embed(TARGET, model.target_positions)
    for layer in model.decoder:
        y = residual(layer.self_attention_norm, y, lambda y, a=layer.self_attention: attend(a, y, y, ahead))
        y = residual(layer.cross_attention_norm, y, lambda y, a=layer.cross_attention: attend(a, y, memory, nothing))
        y = residual(layer.feed_forward_norm, y, lambda y, f=layer.feed_forward: feed_forward(f, y))
    logits = F.linear(end(model.decoder_norm, y), model.embedding.weight[: model.vocab_size])
    assert next(left, None) is None, "a mask was drawn that the paper does not have"
    return logits


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_values_and_gradients_are_those_of_the_plain_model_with_the_same_masks(masks, norm):
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=2, decoder_layers=2, d_model=8, d_ff=12, heads=2, norm=norm, **RATES)
    model = accelerate(Transformer(config, 13), choose_kernels(torch.device("cpu"))).double().train()
    parameters = list(model.parameters())
    for parameter in parameters:
        torch.nn.init.normal_(parameter, std=0.3)
    found = on_padded.logits(model, SOURCE, TARGET)
    toward = torch.randn_like(found)
    gradients = torch.autograd.grad(found, parameters, toward)
    expected = plain_logits(model, masks)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    expected_gradients = torch.autograd.grad(expected, parameters, toward)
    torch.testing.assert_close(gradients, expected_gradients, rtol=0, atol=1e-10)
