"""Every check passes on a machine that computes right, and notices what it is there to notice."""

import os
import re

import pytest
import torch

from nmt.doctor import checks
from nmt.kernels.policy import Kernels
from nmt.machine.device import choose_hardware
from nmt.model.attention import attention
from nmt.model.transformer import Transformer
from nmt.training import learner


@pytest.fixture(scope="module")
def hardware():
    return choose_hardware("cpu", "fp32", 1)


def doubled(query, key, value, mask, dropout):
    return 2 * attention(query, key, value, mask, dropout)


def test_all_checks_pass(hardware):
    done = {subject: run() for subject, run in checks.all_checks(hardware)}
    assert [check for each in done.values() for check in each if not check.passed] == []
    assert {subject: len(each) for subject, each in done.items()} == {
        "gradients in fp32": 1, "attention": 2, "dropout": 1, "cached steps": 1
    }  # fmt: skip


def test_bf16_is_compared_too_where_training_uses_it():
    in_bf16 = choose_hardware("cpu", "bf16", 1)
    subjects = [subject for subject, _ in checks.all_checks(in_bf16)]
    assert subjects[:2] == ["gradients in fp32", "gradients in bf16"]
    assert checks.check_gradients(in_bf16, "bf16", 5e-2).passed
    assert not checks.check_gradients(in_bf16, "bf16", 1e-6).passed  # it does round


def test_a_wrong_kernel_is_noticed(hardware, monkeypatch):
    monkeypatch.setattr(checks, "choose_kernels", lambda device, products=None: Kernels(attention=doubled))
    check = checks.check_gradients(hardware, "fp32", 1e-4)
    assert not check.passed
    assert "allowed 1e-04" in check.detail
    monkeypatch.setattr(checks, "fused_attention", doubled)
    assert [check.passed for check in checks.check_attention(hardware)] == [True, False]


def test_the_attention_of_searches_in_bf16_is_compared_too(monkeypatch):
    in_bf16 = choose_hardware("cpu", "bf16", 1)
    *_, check = checks.check_attention(in_bf16)
    assert "bf16" in check.name
    assert check.passed
    monkeypatch.setattr(checks, "choose_kernels", lambda device, products=None: Kernels(attention=doubled))
    assert [check.passed for check in checks.check_attention(in_bf16)] == [True, True, False]


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (lambda *parts: int.from_bytes(os.urandom(4), "little"), r"same update differ by [1-9]"),
        (lambda *parts: 1, r"next one differ by 0\.0e\+00"),
    ],
)
def test_dropout_that_does_not_repeat_or_always_repeats_is_noticed(hardware, monkeypatch, seed, words):
    monkeypatch.setattr(learner, "derived_seed", seed)
    check = checks.check_dropout(hardware)
    assert not check.passed
    assert re.search(words, check.detail)


def test_steps_that_differ_are_noticed(hardware, monkeypatch):
    step = Transformer.step

    def shifted(*arguments):
        logits_NV = step(*arguments)
        logits_NV[:, 5] += 0.01
        return logits_NV

    monkeypatch.setattr(Transformer, "step", shifted)
    assert not checks.check_steps(hardware).passed


def test_numbers_that_are_none_are_noticed(hardware, monkeypatch):
    step = Transformer.step
    monkeypatch.setattr(Transformer, "step", lambda *arguments: step(*arguments) * torch.nan)
    assert not checks.check_steps(hardware).passed
    monkeypatch.setattr(
        checks,
        "choose_kernels",
        lambda device, products=None: Kernels(attention=lambda *inputs: attention(*inputs) * torch.nan),
    )
    assert not checks.check_gradients(hardware, "fp32", 1e-4).passed


def test_the_precision_of_products_is_as_before(hardware):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        checks.check_attention(hardware)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_random_batches_reach_the_longest(hardware):
    batch = checks.random_batch(10, 7)
    for pieces, lengths in ((batch.source_M, batch.source_lengths_B), (batch.target_input_N, batch.target_lengths_B)):
        assert len(lengths) == 10
        assert len(pieces) == lengths.sum()
        assert pieces.min() > 3
        assert lengths.max() == 7
        assert lengths.min() >= 2
