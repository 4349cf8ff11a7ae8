"""One update: what it comes to does not depend on how it is split."""

import random
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from nmt.config import Config, ModelConfig, OptimizerConfig, TrainingConfig
from nmt.data.batching import Batch
from nmt.errors import ConfigError, TrainingError
from nmt.kernels.policy import accelerate
from nmt.machine.device import choose_hardware
from nmt.model.observing import AttentionObserver
from nmt.model.transformer import Transformer
from nmt.special_ids import EOS
from nmt.training.input.model_inputs import model_inputs
from nmt.training.learner import Learner, derived_seed
from nmt.training.loss_scale import LossScale
from nmt.training.optimizer import Adam
from nmt.training.ranks.exchange import NO_OTHERS, Ranks
from nmt.training.ranks.message import UpdateOutcome
from nmt.training.start.resume import choose_what_learns
from tests.policies import EVERY_POLICY, chosen

pytestmark = EVERY_POLICY


def pairs(count: int):
    draw = np.random.default_rng(0)
    return [
        (draw.integers(4, 30, draw.integers(1, 9)), draw.integers(4, 30, draw.integers(1, 9))) for _ in range(count)
    ]


def batch(chosen) -> Batch:
    sources, targets = zip(*chosen, strict=True)
    return Batch(
        np.concatenate([[*s, 3] for s in sources]), np.concatenate([[2, *t] for t in targets]),
        np.concatenate([[*t, 3] for t in targets]),
        np.array([len(s) + 1 for s in sources]), np.array([len(t) + 1 for t in targets]),
    )  # fmt: skip


def learner(
    dropout=0.0,
    precision="fp64",
    *,
    clip_norm=None,
    ranks=NO_OTHERS,
    overlaps_exchange=None,
    alignment_layer=None,
    **training,
) -> Learner:
    torch.manual_seed(0)
    config = Config(
        model=ModelConfig(
            encoder_layers=1,
            decoder_layers=1,
            d_model=16,
            d_ff=16,
            heads=2,
            dropout=dropout,
            alignment_layer=alignment_layer,
        ),
        optimizer=OptimizerConfig(clip_norm=clip_norm),
        training=TrainingConfig(**training),
    )
    hardware = choose_hardware("cpu", precision, 1)
    model = accelerate(Transformer(config.model, 30), chosen()).to(hardware.weights_dtype)
    return Learner(model, config, hardware, ranks, overlaps_exchange=overlaps_exchange)


def weights(made: Learner) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in made.model.parameters()]).clone()


def gradient(made: Learner) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in made.parameters.values()]).clone()


def tokens(batches) -> int:
    return sum(batch.target_tokens for batch in batches)


def updated(batches, updates=1, **options):
    made = learner(**options)
    for update in range(1, updates + 1):
        result = made.update(batches, update=update, target_tokens=tokens(batches), learning_rate=1e-3)
    return weights(made), result


def aligned(of: Batch) -> Batch:
    """A batch whose target pieces come from random source pieces or from none."""
    draw, sources = np.random.default_rng(1), np.repeat(of.source_lengths_B, of.target_lengths_B)
    numbers = np.array([draw.integers(0, length) for length in sources])
    return replace(of, aligned_N=numbers * (of.target_output_N != EOS))


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_guided_alignment_adds_minus_log_of_the_weights_of_one_head(r_drop):
    batches = [aligned(batch(pairs(9))), aligned(batch(pairs(4)))]
    plain, guided = (
        learner(alignment_layer=1, guided_alignment=weight, r_drop=r_drop, label_smoothing=0.0) for weight in (0, 0.5)
    )
    results = [
        made.update(batches, update=1, target_tokens=tokens(batches), learning_rate=0) for made in (plain, guided)
    ]
    expected, model = 0.0, plain.model
    for of in batches:
        seen = {}
        inputs = model_inputs(of, model.device, model.size_of)
        model.decode(inputs.target, model.encode(inputs.source), observer=AttentionObserver(memory=seen.__setitem__))
        of_sentences = np.split(of.aligned_N, np.cumsum(of.target_lengths_B)[:-1])
        for sentence, numbers in zip(seen[0][:, 0], of_sentences, strict=True):
            expected -= sum(sentence[row, number - 1].log().item() for row, number in enumerate(numbers) if number)
    difference = results[1].smoothed_loss - results[0].smoothed_loss
    assert difference == pytest.approx(0.5 * expected / tokens(batches), rel=1e-9)
    assert results[1].cross_entropy == results[0].cross_entropy


def test_guided_alignment_teaches_the_head():
    of = aligned(batch(pairs(6)))
    made = learner(alignment_layer=1, guided_alignment=5.0, precision="fp32")
    losses = [
        made.update([of], update=update, target_tokens=of.target_tokens, learning_rate=3e-3).smoothed_loss
        for update in range(1, 60)
    ]
    unguided = learner(alignment_layer=1, guided_alignment=0, precision="fp32")
    floor = unguided.update([of], update=1, target_tokens=of.target_tokens, learning_rate=0).smoothed_loss
    assert losses[0] - floor > 4 * max(losses[-1] - floor, 0)


@pytest.mark.parametrize("cuts", [[7], [1, 20], [3, 4, 5, 11]])
def test_micro_batches_equal_one_batch(cuts):
    chosen = pairs(24)
    whole, whole_result = updated([batch(chosen)], updates=3)
    parts = [batch(chosen[a:b]) for a, b in zip([0, *cuts], [*cuts, 24], strict=True)]
    split, split_result = updated(parts, updates=3)
    assert (whole - split).norm() / whole.norm() <= 1e-9
    assert split_result.smoothed_loss == pytest.approx(whole_result.smoothed_loss, rel=1e-9)
    assert split_result.target_tokens == whole_result.target_tokens


def test_gradients_of_micro_batches_are_summed_in_fp32():
    made = learner(precision="bf16")
    alone = []
    batches = [batch(pairs(9)), batch(pairs(4)), batch(pairs(7))]
    for part in batches:
        made.compute_gradients([part], update=1, target_tokens=90)
        alone.append(gradient(made).clone())
    made.compute_gradients(batches, update=1, target_tokens=90)
    assert gradient(made).dtype == torch.float32
    torch.testing.assert_close(gradient(made), sum(alone), rtol=1e-5, atol=1e-8)


def test_dropout_depends_on_seed_update_and_micro_batch_alone():
    batches = [batch(pairs(8)), batch(pairs(5))]
    one, _ = updated(batches, dropout=0.5)
    torch.rand(17)  # whatever else draws in between
    other, _ = updated(batches, dropout=0.5)
    assert torch.equal(one, other)
    assert len({derived_seed(a, b, 0, c) for a in range(3) for b in range(3) for c in range(3)}) == 27


def test_ranks_draw_different_dropout():
    chosen = [batch(pairs(8)), batch(pairs(5))]

    def gradient_of(rank: int) -> torch.Tensor:
        made = learner(dropout=0.5, ranks=Ranks(rank, 2))
        made.compute_gradients(chosen, update=1, target_tokens=tokens(chosen))
        return gradient(made)

    assert torch.equal(gradient_of(1), gradient_of(1))
    assert not torch.equal(gradient_of(0), gradient_of(1))


def test_the_learning_rate_and_adam_are_the_papers():
    parameter = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = Adam({"weight": parameter}, OptimizerConfig())
    m = v = 0.0
    expected = 1.0
    for step, gradient in enumerate([0.5, -2.0, 0.25], start=1):
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step(parameter.grad.norm(), 0.01)
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        expected -= 0.01 * (m / (1 - 0.9**step)) / ((v / (1 - 0.98**step)) ** 0.5 + 1e-9)
        assert parameter.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("ema_decay", [None, 0.5])
def test_a_restored_learner_goes_on_where_it_was(ema_decay):
    batches = [batch(pairs(8))]
    straight, first = (learner(dropout=0.1, precision="fp32", ema_decay=ema_decay) for _ in range(2))
    for update in range(1, 7):
        straight.update(batches, update=update, target_tokens=tokens(batches), learning_rate=1e-2)
    for update in range(1, 4):
        first.update(batches, update=update, target_tokens=tokens(batches), learning_rate=1e-2)
    saved_weights = {name: tensor.clone() for name, tensor in first.weights().items()}
    saved = {name: tensor.clone() for name, tensor in first.state_dict().items()}
    second = learner(dropout=0.1, precision="fp32", ema_decay=ema_decay)
    second.model.load_state_dict(saved_weights)
    second.load_state_dict(saved, 3)
    for update in range(4, 7):
        second.update(batches, update=update, target_tokens=tokens(batches), learning_rate=1e-2)
    assert torch.equal(weights(straight), weights(second))
    for name, tensor in straight.weights().items():
        assert torch.equal(tensor, second.weights()[name])


def test_the_moving_average_follows_its_formula_and_is_what_is_saved():
    made, batches = learner(ema_decay=0.9), [batch(pairs(8))]
    expected = weights(made)
    for update in (1, 2, 3):
        made.update(batches, update=update, target_tokens=tokens(batches), learning_rate=1e-2)
        expected = 0.9 * expected + 0.1 * weights(made)
    learnt = weights(made)
    with made.weights_in_use():
        torch.testing.assert_close(weights(made), expected, rtol=1e-12, atol=1e-15)
    assert torch.equal(weights(made), learnt)
    saved = torch.cat([made.weights()[name].flatten() for name in made.parameters])
    torch.testing.assert_close(saved, expected, rtol=1e-12, atol=1e-15)


def test_long_gradients_are_scaled_down_to_the_norm():
    batches = [batch(pairs(8))]
    free, clipped = learner(), learner(clip_norm=0.01)
    for made in (free, clipped):
        result = made.update(batches, update=1, target_tokens=tokens(batches), learning_rate=0.0)
        assert result.gradient_norm == pytest.approx(gradient(free).norm().item(), rel=1e-9)
    assert gradient(clipped).norm().item() == pytest.approx(0.01, rel=1e-9)
    torch.testing.assert_close(gradient(clipped) / 0.01, gradient(free) / gradient(free).norm())


def test_gradients_shorter_than_the_norm_stay_as_they_are():
    batches = [batch(pairs(8))]
    free, clipped = learner(), learner(clip_norm=1e6)
    for made in (free, clipped):
        made.update(batches, update=1, target_tokens=tokens(batches), learning_rate=0.0)
    assert 0 < gradient(free).norm() < 1e6
    assert torch.equal(gradient(clipped), gradient(free))


def out_of_memory() -> Exception:
    return RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")


class FailingNow:
    """Runs out of memory in the forward or in the middle of the backward pass, at moments drawn at random."""

    def __init__(self, model: Transformer, seed: int) -> None:
        self._draw, self._left = random.Random(seed), 6
        self.failures = 0
        self._sentences = 0
        model.register_forward_pre_hook(lambda module, inputs: self._begin(len(inputs[1].lengths_B)))
        # The gradient of the encoder comes late: those of the decoder are added up by then.
        model.encoder[0].register_full_backward_hook(lambda module, ins, outs: self._perhaps())

    def _begin(self, sentences: int) -> None:
        self._sentences = sentences
        self._perhaps()

    def _perhaps(self) -> None:
        if self._sentences > 1 and self._left and self._draw.random() < 0.3:
            self._left -= 1
            self.failures += 1
            raise out_of_memory()


def of_size(chosen, size: int) -> list[Batch]:
    """Pairs in micro-batches of at most so many positions, but for single pairs."""
    made = [[chosen[0]]]
    for pair in chosen[1:]:
        if batch([*made[-1], pair]).positions > size:
            made.append([])
        made[-1].append(pair)
    return [batch(part) for part in made]


@pytest.mark.parametrize("seed", range(4))
def test_an_update_that_does_not_fit_is_made_again_from_smaller_micro_batches_and_is_the_same(seed):
    chosen, size = pairs(40), 200
    undisturbed, disturbed = learner(ema_decay=0.5), learner(ema_decay=0.5)
    failing, whole = FailingNow(disturbed.model, seed), batch(chosen)
    for update in (1, 2, 3):
        settings = {"update": update, "target_tokens": whole.target_tokens, "learning_rate": 1e-3}
        expected, failures = undisturbed.update([whole], **settings), failing.failures
        before = {name: tensor.clone() for name, tensor in disturbed.state_dict().items()}
        while (found := disturbed.update(of_size(chosen, size), **settings)).outcome is UpdateOutcome.AGAIN:
            assert found.fitting_tokens < size
            size = found.fitting_tokens
            assert all(torch.equal(tensor, before[name]) for name, tensor in disturbed.state_dict().items())
            failures += 1
        assert failures == failing.failures
        assert found.cross_entropy == pytest.approx(expected.cross_entropy, rel=1e-9)
        assert (gradient(undisturbed) - gradient(disturbed)).norm() / gradient(undisturbed).norm() <= 1e-9
    assert failing.failures > 1
    assert (weights(undisturbed) - weights(disturbed)).norm() / weights(undisturbed).norm() <= 1e-9


def test_a_single_pair_that_does_not_fit_is_an_error_that_names_it():
    made = learner()

    def refuse(module, inputs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    made.model.register_forward_pre_hook(refuse)
    with pytest.raises(TrainingError, match=r"single pair of \d+ source and \d+ target pieces"):
        made.update([batch(pairs(1))], update=1, target_tokens=9, learning_rate=1e-3)
    assert made.update([batch(pairs(5))], update=1, target_tokens=9, learning_rate=1e-3).outcome is UpdateOutcome.AGAIN


def test_a_pass_that_failed_holds_no_memory_when_it_is_released(monkeypatch):
    made, logits, alive = learner(), [], []
    made.model.register_forward_hook(lambda module, inputs, output: logits.append(weakref.ref(output)))
    made.model.encoder[0].register_full_backward_hook(lambda *arguments: (_ for _ in ()).throw(out_of_memory()))
    monkeypatch.setattr("nmt.training.learner.release_memory", lambda device: alive.append(logits[0]() is not None))
    assert not made.fits(batch(pairs(5)))
    assert alive == [False]


def test_other_errors_are_not_taken_for_want_of_memory():
    made = learner()
    made.model.register_forward_pre_hook(
        lambda module, inputs: (inputs[0], replace(inputs[1], tokens_N=inputs[1].tokens_N[1:]))
    )
    with pytest.raises(RuntimeError):
        made.update([batch(pairs(5))], update=1, target_tokens=9, learning_rate=1e-3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_leaves_everything_as_it_was(bad):
    batches = [batch(pairs(8))]
    made, plain = learner(ema_decay=0.9), learner(ema_decay=0.9)
    poisoned = [1]
    handle = made.parameters["embedding.weight"].register_hook(
        lambda grad: grad.index_fill(0, torch.tensor([5]), bad) if poisoned else grad
    )
    before = {name: tensor.clone() for name, tensor in {**made.weights(), **made.state_dict()}.items()}
    result = made.update(batches, update=1, target_tokens=tokens(batches), learning_rate=1e-2)
    assert result.outcome is UpdateOutcome.SKIPPED
    for name, tensor in {**made.weights(), **made.state_dict()}.items():
        assert torch.equal(tensor, before[name]), name
    # The update after it is as if there had been none before it.
    poisoned.clear()
    handle.remove()
    for one in (made, plain):
        result = one.update(batches, update=2, target_tokens=tokens(batches), learning_rate=1e-2)
        assert result.outcome is UpdateOutcome.DONE
    assert torch.equal(weights(made), weights(plain))


def test_the_scaled_loss_of_fp16_gives_the_gradients_of_fp32():
    batches = [batch(pairs(8))]
    made, plain = learner(precision="fp16"), learner(precision="fp32")
    for one, scale in ((made, 2.0**14), (plain, 1.0)):
        one.update(batches, update=1, target_tokens=tokens(batches), learning_rate=0.0, loss_scale=scale)
    torch.testing.assert_close(gradient(made), gradient(plain), rtol=0.05, atol=1e-3)
    before, more_than_fp16_holds = weights(made), 2.0**40
    result = made.update(
        batches, update=2, target_tokens=tokens(batches), learning_rate=1e-2, loss_scale=more_than_fp16_holds
    )
    assert result.outcome is UpdateOutcome.SKIPPED
    assert torch.equal(weights(made), before)


def test_the_loss_scale_grows_after_a_thousand_good_updates():
    scale = LossScale(4.0)
    for _ in range(1_000):
        scale.adapt(overflowed=False)
    assert scale.value == 8.0
    scale.adapt(overflowed=True)
    assert (scale.value, scale.good_updates) == (4.0, 0)


def test_frozen_parameters_keep_their_values():
    torch.manual_seed(0)
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=16, d_ff=16, heads=2)
    model = accelerate(Transformer(config, 30), chosen()).train()
    choose_what_learns(model, TrainingConfig(freeze=("encoder.*", "embedding.weight")))
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    made = Learner(model, Config(model=config), choose_hardware("cpu", "fp32", 1))
    batches = [batch(pairs(8))]
    made.update(batches, update=1, target_tokens=tokens(batches), learning_rate=1e-2)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == name.startswith(("encoder.", "embedding.")), name
    assert not any("encoder." in name for name in made.state_dict())
    with pytest.raises(ConfigError, match="matches no parameter"):
        choose_what_learns(model, TrainingConfig(freeze=("encodr.*",)))
    with pytest.raises(ConfigError, match="nothing is left to learn"):
        choose_what_learns(model, TrainingConfig(freeze=("*",)))


def test_with_r_drop_but_without_dropout_updates_are_as_without_it():
    plain, twice = learner(), learner(r_drop=5.0)
    made = batch(pairs(7))
    results = [
        each.update([made], update=1, target_tokens=made.target_tokens, learning_rate=0.01) for each in (plain, twice)
    ]
    assert (weights(twice) - weights(plain)).norm() <= 1e-9 * weights(plain).norm()
    assert results[1].smoothed_loss == pytest.approx(results[0].smoothed_loss, rel=1e-12)
    assert results[1].cross_entropy == pytest.approx(results[0].cross_entropy, rel=1e-12)


def test_r_drop_makes_the_passes_of_a_sentence_differ():
    results = [
        learner(dropout=0.3, r_drop=weight).update([batch(pairs(7))], update=1, target_tokens=50, learning_rate=0.01)
        for weight in (1e-9, 5.0)
    ]
    assert results[1].cross_entropy == pytest.approx(results[0].cross_entropy, rel=1e-9)
    assert results[1].smoothed_loss > results[0].smoothed_loss * 1.01
