"""Every check passes on a machine that computes right, and notices what it is there to notice."""

import os

import pytest
import torch

from nmt.device import choose_hardware
from nmt.doctor import checks
from nmt.doctor.generated_text import generated_data_set
from nmt.kernels.policy import Kernels
from nmt.model.attention import attention
from nmt.model.transformer import Transformer
from nmt.training import learner


@pytest.fixture(scope="module")
def hardware():
    return choose_hardware("cpu", "fp32", 1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return generated_data_set(tmp_path_factory.mktemp("doctor") / "text", 300)


def doubled(query, key, value, mask, dropout):
    return 2 * attention(query, key, value, mask, dropout)


def test_all_checks_pass(hardware, data, tmp_path):
    done = [check for _, run in checks.all_checks(hardware, data, tmp_path) for check in run()]
    assert [check for check in done if not check.passed] == []
    assert len(done) == 7
    subjects = " ".join(check.name for check in done)
    for subject in ("gradients in fp32", "two products", "fused", "dropout", "cached steps", "resume", "out of memory"):
        assert subject in subjects


def test_bf16_is_compared_too_where_training_uses_it(data, tmp_path):
    in_bf16 = choose_hardware("cpu", "bf16", 1)
    subject, run = next(iter(checks.all_checks(in_bf16, data, tmp_path)))
    assert subject == "loss and gradients"
    assert [check.passed for check in run()] == [True, True]
    assert not checks.check_gradients(in_bf16, "bf16", 1e-6).passed  # it does round


def test_a_wrong_kernel_is_noticed(hardware, monkeypatch):
    monkeypatch.setattr(checks, "choose_kernels", lambda device: Kernels(attention=doubled))
    check = checks.check_gradients(hardware, "fp32", 1e-4)
    assert not check.passed
    assert "allowed 1e-04" in check.detail
    monkeypatch.setattr(checks, "fused_attention", doubled)
    assert [check.passed for check in checks.check_attention(hardware)] == [True, False]


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (lambda *parts: int.from_bytes(os.urandom(4), "little"), "NOT equal"),
        (lambda *parts: 1, "NO other numbers"),
    ],
)
def test_dropout_that_does_not_repeat_or_always_repeats_is_noticed(hardware, monkeypatch, seed, words):
    monkeypatch.setattr(learner, "derived_seed", seed)
    check = checks.check_dropout(hardware)
    assert not check.passed
    assert words in check.detail


def test_steps_that_differ_are_noticed(hardware, monkeypatch):
    step = Transformer.step

    def shifted(self, tokens_BW, state, live_BW=None):
        logits_NV, after = step(self, tokens_BW, state, live_BW)
        logits_NV[:, 5] += 0.01
        return logits_NV, after

    monkeypatch.setattr(Transformer, "step", shifted)
    assert not checks.check_steps(hardware).passed


def test_a_resumed_run_that_forgets_is_noticed(data, tmp_path, monkeypatch):
    monkeypatch.setattr(learner.Learner, "restore", lambda *arguments: None)
    check = checks.check_resume(data, tmp_path)
    assert not check.passed
    assert "tensors differ" in check.detail


def test_a_process_that_dies_of_little_memory_is_noticed(monkeypatch):
    monkeypatch.setattr(checks, "_MEMORY_WORKER", "nmt.doctor.nothing")
    check = checks.check_memory()
    assert check.passed is False
    assert "No module named nmt.doctor.nothing" in check.detail


def test_random_batches_are_padded_on_the_right_and_reach_the_longest(hardware):
    batch = checks.random_batch(10, 7)
    assert batch.source_BS.shape == batch.target_input_BT.shape == (10, 7)
    for pieces, lengths in ((batch.source_BS, batch.source_lengths_B), (batch.target_input_BT, batch.target_lengths_B)):
        assert ((pieces != 0).sum(1) == lengths).all()
        assert torch.equal(torch.from_numpy(pieces != 0).long().cummin(1).values, torch.from_numpy(pieces != 0).long())
        assert lengths.max() == 7
        assert lengths.min() >= 2
