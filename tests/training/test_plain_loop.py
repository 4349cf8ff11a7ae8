"""A run learns what a plain loop learns, which is written here from section 5: what a comparison of one run with
another does not show, since both have the same schedule, the same loss and the same dropout."""

import pytest
import torch

from nmt.checkpoint.run_folder import RunFolder
from nmt.data.batching import collate, plan_epoch, rank_micro_batches
from nmt.data.shards import ParallelShards
from nmt.data.vocab_pair import VocabularyPair
from nmt.training.input.model_inputs import model_inputs
from nmt.training.learner import derived_seed
from nmt.training.start import resume
from nmt.training.start.resume import build_model
from tests.policies import EVERY_POLICY
from tests.training.conftest import records, saved

# Where sentences lie one after the other, dropout draws for other rows.
pytestmark = [EVERY_POLICY, pytest.mark.parametrize("every_policy", ["plain", "cpu", "cuda", "mps"], indirect=True)]

UPDATES, WARMUP = 24, 6


def micro_batches(data, config):
    """Of each update its target tokens and its micro-batches, from the plans of as many epochs as it takes."""
    shards = ParallelShards.open(data, "train")
    lengths = shards.source_lengths, shards.target_lengths
    sizes = {name: getattr(config.batching, name) for name in ("update_tokens", "group_tokens")}
    for epoch in range(UPDATES):
        plan = plan_epoch(*lengths, pairs=None, seed=config.training.seed, epoch=epoch, **sizes)
        for index in range(len(plan)):
            shares = rank_micro_batches(
                plan, index, rank=0, ranks=1, max_tokens=config.batching.micro_batch_tokens,
                source_lengths=lengths[0], target_lengths=lengths[1],
            )  # fmt: skip
            yield epoch, [collate(shards, pairs) for pairs in shares]


def smoothed_loss(logits, targets, smoothing):
    """Cross-entropy with 1 - smoothing on the gold piece and the rest shared out evenly among the others, summed."""
    logs, real = logits.log_softmax(-1), targets != 0
    gold = logs.gather(-1, targets[..., None])[..., 0]
    others = (logs.sum(-1) - gold) / (logits.shape[-1] - 1)
    return -((1 - smoothing) * gold + smoothing * others)[real].sum(), -gold[real].sum().item()


def test_a_run_of_two_epochs_learns_what_a_plain_loop_does(run_training, settled, reversed_words, tmp_path):
    changes = [
        "training.precision=fp64", f"training.max_updates={UPDATES}", f"schedule.warmup={WARMUP}",
        "validation.bleu=false", "logging.every_updates=1", "model.activation_dropout=0.2",
        "batching.update_tokens=120", "batching.micro_batch_tokens=70",
    ]  # fmt: skip
    config = settled(*changes)
    run_training(tmp_path / "run", *changes)

    vocab = VocabularyPair.load(reversed_words / "vocab.model")
    # The same kernels, for the same random numbers of dropout.
    model = build_model(config, vocab, resume.choose_kernels(torch.device("cpu"))).double().train()
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    expected, epochs = [], []
    for update, (epoch, batches) in zip(range(1, UPDATES + 1), micro_batches(reversed_words, config), strict=False):
        rate = 16**-0.5 * min(update**-0.5, update * WARMUP**-1.5)
        tokens = sum(batch.target_tokens for batch in batches)
        adam.zero_grad()
        total = 0.0
        for index, batch in enumerate(batches):
            torch.manual_seed(derived_seed(config.training.seed, update, 0, index))
            inputs = model_inputs(batch, torch.device("cpu"), model.size_of)
            loss, cross_entropy = smoothed_loss(model(inputs.source, inputs.target), inputs.target_output_N, 0.1)
            (loss / tokens).backward()
            total += cross_entropy
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        expected.append((update, rate, total / tokens, tokens))
        epochs.append((epoch, len(batches)))
    assert {epoch for epoch, _ in epochs} == {0, 1, 2}
    assert max(count for _, count in epochs) > 1

    found = [(r["update"], r["learning_rate"], r["loss"]) for r in records(tmp_path / "run", "update")]
    assert [update for update, _, _ in found] == list(range(1, UPDATES + 1))
    for (_, rate, loss), (_, expected_rate, expected_loss, _) in zip(found, expected, strict=True):
        assert rate == pytest.approx(expected_rate, rel=1e-6)
        assert loss == pytest.approx(expected_loss, rel=1e-6)
    assert RunFolder(tmp_path / "run").checkpoint(UPDATES).is_dir()
    tensors = saved(tmp_path / "run", UPDATES)
    for name, parameter in model.named_parameters():
        # No loss depends on the biases of keys: Adam blows the rounding of their gradients up.
        torch.testing.assert_close(tensors[f"learnt.{name}"], parameter.detach(), rtol=0, atol=1e-7)
