"""One update: what it comes to does not depend on how it is split."""

import numpy as np
import pytest
import torch

from nmt.config import ModelConfig, OptimizerConfig
from nmt.data.batching import Batch
from nmt.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.step import derived_seed, make_optimizer, restore_optimizer, take_update


def pairs(count: int):
    draw = np.random.default_rng(0)
    return [
        (draw.integers(4, 30, draw.integers(1, 9)), draw.integers(4, 30, draw.integers(1, 9))) for _ in range(count)
    ]


def padded(rows):
    width = max(map(len, rows))
    return np.array([[*row, *[0] * (width - len(row))] for row in rows], dtype=np.int64)


def batch(chosen) -> Batch:
    sources, targets = zip(*chosen, strict=True)
    return Batch(
        padded([[*s, 3] for s in sources]), padded([[2, *t] for t in targets]), padded([[*t, 3] for t in targets]),
        sum(len(t) + 1 for t in targets),
    )  # fmt: skip


def updated(batches, dropout=0.0, updates=1):
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2, dropout=dropout)
    model = Transformer(config, 30).double().train()
    optimizer = make_optimizer(model, OptimizerConfig())
    for update in range(1, updates + 1):
        result = take_update(
            model, optimizer, batches, update=update, learning_rate=1e-3, label_smoothing=0.1, seed=1,
            hardware=choose_hardware("cpu", "fp32", 1),
        )  # fmt: skip
    return torch.cat([p.detach().flatten() for p in model.parameters()]), result


@pytest.mark.parametrize("cuts", [[7], [1, 20], [3, 4, 5, 11]])
def test_micro_batches_equal_one_batch(cuts):
    chosen = pairs(24)
    whole, whole_result = updated([batch(chosen)], updates=3)
    parts = [batch(chosen[a:b]) for a, b in zip([0, *cuts], [*cuts, 24], strict=True)]
    split, split_result = updated(parts, updates=3)
    assert (whole - split).norm() / whole.norm() <= 1e-9
    assert split_result.smoothed_loss == pytest.approx(whole_result.smoothed_loss, rel=1e-9)
    assert split_result.target_tokens == whole_result.target_tokens


def test_dropout_depends_on_seed_update_and_micro_batch_alone():
    batches = [batch(pairs(8)), batch(pairs(5))]
    one, _ = updated(batches, dropout=0.5)
    torch.rand(17)  # whatever else draws in between
    other, _ = updated(batches, dropout=0.5)
    assert torch.equal(one, other)
    assert len({derived_seed(a, b, 0, c) for a in range(3) for b in range(3) for c in range(3)}) == 27


def test_the_learning_rate_and_adam_are_the_papers():
    parameter = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    holder = torch.nn.Module()
    holder.register_parameter("weight", parameter)
    optimizer = make_optimizer(holder, OptimizerConfig())
    m = v = 0.0
    expected = 1.0
    for step, gradient in enumerate([0.5, -2.0, 0.25], start=1):
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.param_groups[0]["lr"] = 0.01
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        expected -= 0.01 * (m / (1 - 0.9**step)) / ((v / (1 - 0.98**step)) ** 0.5 + 1e-9)
        assert parameter.item() == pytest.approx(expected, rel=1e-12)


def test_a_restored_optimizer_goes_on_where_it_was():
    torch.manual_seed(0)
    one, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    first = make_optimizer(one, OptimizerConfig())
    for _ in range(3):
        one(torch.ones(1, 3)).sum().backward()
        first.param_groups[0]["lr"] = 0.1
        first.step()
    from nmt.training.step import optimizer_tensors

    other.load_state_dict(one.state_dict())
    second = make_optimizer(other, OptimizerConfig())
    restore_optimizer(other, second, {k: t.clone() for k, t in optimizer_tensors(one, first).items()}, 3)
    for model, optimizer in ((one, first), (other, second)):
        model.zero_grad()
        model(torch.ones(1, 3) * 2).square().sum().backward()
        optimizer.param_groups[0]["lr"] = 0.1
        optimizer.step()
    assert torch.equal(one.weight, other.weight)
