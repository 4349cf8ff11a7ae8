"""Gradients that are sent in buckets while the backward pass computes others: the same sums, in the same order."""

import pytest
import torch
from torch import nn

from nmt.config import Config, ModelConfig, TrainingConfig
from nmt.machine.device import choose_hardware
from nmt.model.transformer import Transformer
from nmt.training.gradients import GradientBuffer
from nmt.training.learner import Learner
from nmt.training.ranks.exchange import Ranks
from nmt.training.ranks.message import UpdateOutcome
from tests.training.test_learner import batch, gradient, learner, pairs, weights


class Twice(Ranks):
    """Two ranks with the same gradients; it notes what is exchanged, and when."""

    def __init__(self) -> None:
        super().__init__(0, 2)
        object.__setattr__(self, "begun", [])
        object.__setattr__(self, "ended", [])

    def all_reduce(self, tensor):
        tensor.mul_(2)

    def begin_all_reduce(self, tensor):
        self.begun.append(tensor.numel())

        def wait():
            tensor.mul_(2)
            self.ended.append(tensor.numel())

        return wait


SMALL_BUCKETS = {"overlaps_exchange": True, "bucket_megabytes": 0.003}


@pytest.mark.parametrize("options", [{}, {"clip_norm": 0.1}, {"r_drop": 2.0}, {"ema_decay": 0.5}], ids=str)
def test_an_update_learns_the_same(options):
    plain = learner(**options, ranks=Twice(), overlaps_exchange=False)
    overlapped = learner(**options, ranks=Twice(), **SMALL_BUCKETS)
    for update in (1, 2, 3):
        batches = [batch(pairs(5 + update)), batch(pairs(3))]
        results = [
            made.update(batches, update=update, target_tokens=60, learning_rate=0.01) for made in (plain, overlapped)
        ]
        assert results[0].gradient_norm == pytest.approx(results[1].gradient_norm, rel=1e-12)
        assert results[0].smoothed_loss == results[1].smoothed_loss
        torch.testing.assert_close(gradient(plain), gradient(overlapped), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(weights(plain), weights(overlapped), rtol=1e-9, atol=1e-12)


def test_buckets_are_sent_during_the_last_backward_pass_and_cover_all_gradients_once():
    ranks = Twice()
    made = learner(ranks=ranks, **SMALL_BUCKETS)
    sent = []  # when the gradients of the first encoder layer come
    made.model.encoder[0].register_full_backward_hook(lambda *arguments: sent.append(len(ranks.begun)))
    made.update([batch(pairs(5)), batch(pairs(3))], update=1, target_tokens=30, learning_rate=0.01)
    first, last = sent
    assert first == 0
    assert 0 < last < len(ranks.begun)
    *buckets, figures = ranks.begun
    assert sum(buckets) == gradient(made).numel()
    assert figures == made._buffer.figures.numel()
    assert ranks.ended == ranks.begun
    # The gradient of the tied embedding is complete last, and is sent alone.
    assert buckets[-1] == made.model.embedding.weight.numel()
    assert len(buckets) > 3


@pytest.mark.parametrize(
    "changes",
    [{"norm": norm, "positions": positions} for norm in ("post", "pre") for positions in ("sinusoidal", "learned")]
    + [{"norm": "pre", "tied_embeddings": "none", "output_bias": True}, {"attention_bias": False}],
    ids=str,
)
def test_no_bucket_waits_for_a_gradient_that_comes_much_later(changes):
    """Only the parameters that several places share are complete later than their place in the model says."""
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 16, "heads": 2, "dropout": 0.0}
    config = Config(model=ModelConfig(**sizes, **changes), training=TrainingConfig(bucket_megabytes=0.003))
    model, ranks = Transformer(config.model, 30), Twice()
    made = Learner(model, config, choose_hardware("cpu", "fp32", 1), ranks, overlaps_exchange=True)
    order, sent = [], []
    for name, parameter in made.parameters.items():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: order.append(name))
    begin = ranks.begin_all_reduce
    object.__setattr__(ranks, "begin_all_reduce", lambda tensor: sent.append(len(order)) or begin(tensor))
    made.update([batch(pairs(5))], update=1, target_tokens=30, learning_rate=0.01)
    together = 0
    for (_, members), number in zip(made._buffer._buckets, sent, strict=False):
        together += len(members)
        if not any(parameter is p for p in model.embedding.parameters() for parameter in members):
            assert number <= together + 8, (sent, order)  # as many as half of a layer has


def test_a_trial_sends_nothing():
    """The preflight tries micro-batches on each rank alone."""
    ranks = Twice()
    made = learner(ranks=ranks, **SMALL_BUCKETS)
    assert made.fits(batch(pairs(3)))
    assert ranks.begun == []


def test_gradients_are_scaled_before_they_are_sent():
    for bucket_bytes in (None, 1):
        parameter = nn.Parameter(torch.zeros(3))
        buffer = GradientBuffer([parameter], 1, Twice(), bucket_bytes=bucket_bytes)
        buffer.clear()
        buffer.send_in_next_backward(0.25)
        (parameter * torch.tensor([4.0, 8.0, 12.0])).sum().backward()
        buffer.all_reduce(0.25)
        assert parameter.grad.tolist() == [2.0, 4.0, 6.0]


def test_what_a_failed_backward_pass_left_is_sent_and_then_forgotten():
    """The other ranks wait for every bucket, whatever became of this rank's pass."""
    ranks = Twice()
    made = learner(ranks=ranks, **SMALL_BUCKETS)
    whole, fails = batch(pairs(5)), [True]

    def fail(*arguments):
        if fails:
            fails.clear()
            raise torch.OutOfMemoryError("CUDA out of memory")

    made.model.encoder[0].register_full_backward_hook(fail)
    settings = {"update": 1, "target_tokens": whole.target_tokens, "learning_rate": 0.01}
    plain = learner(ranks=Twice(), overlaps_exchange=False)
    assert plain.update([whole], **settings).outcome is UpdateOutcome.DONE
    for outcome in (UpdateOutcome.AGAIN, UpdateOutcome.DONE):
        ranks.begun.clear()
        assert made.update([whole], **settings).outcome is outcome
        *buckets, _ = ranks.begun
        assert sum(buckets) == gradient(made).numel()
    torch.testing.assert_close(gradient(made), gradient(plain), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(weights(made), weights(plain), rtol=1e-9, atol=1e-12)
