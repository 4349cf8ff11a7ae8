"""The doctor's checks of a GPU, run on a CPU: they pass where all is right, and notice what is not."""

import pytest
import torch

from nmt.doctor import gpu_checks
from nmt.kernels.flash_attention import masked_attention
from nmt.kernels.policy import Kernels
from nmt.machine.device import choose_hardware
from nmt.model.attention import attention
from tests.recording_double import DoubleOfRecorder

CPU = choose_hardware("cpu", "fp32", 1)


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.1, False)])
def test_attention_over_sentences_is_compared_with_float64(monkeypatch, factor, passed):
    def attend(*arguments):
        return factor * masked_attention(*arguments)

    kernels = Kernels(packed_attention=attend)
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: kernels)
    checks = gpu_checks.check_sentence_attention(choose_hardware("cpu", "bf16", 1))
    assert [check.passed for check in checks] == [passed] * 4


def test_nothing_is_compared_where_sentences_are_padded():
    assert gpu_checks.check_sentence_attention(CPU) == []


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_the_kernels_of_searches_are_compared_with_float64(monkeypatch, factor):
    def step_attention(query, key, value, mask, length):
        used = (int(length) + 1) * query.shape[2]
        return factor * attention(query, key[:, :, :used], value[:, :, :used], mask[:, None, :, :used])

    def summarize(logits, block):
        blocks = logits[:, : logits.shape[1] // block * block].unflatten(1, (-1, block))
        return factor * logits.float().logsumexp(1, keepdim=True), factor * blocks.float().amax(2)

    for changed in ({}, {"step_attention": step_attention}, {"summarize_logits": summarize}):
        monkeypatch.setattr(gpu_checks, "choose_kernels", lambda *_, changed=changed: Kernels(**changed))
        checks = gpu_checks.check_search_kernels(choose_hardware("cpu", "bf16", 1))
        assert [check.passed for check in checks] == [factor == 1.0] * (len(checks))
        assert len(checks) == ("step_attention" in changed) + 2 * ("summarize_logits" in changed)


def test_a_recorded_search_is_compared_with_one_kernel_by_kernel(monkeypatch):
    """In float64, which kernels in Triton do not compute."""

    def step_attention(query, key, value, mask, length):
        assert query.dtype == torch.float32
        return attention(query, key, value, mask[:, None])

    kernels = Kernels(steps_per_look=8, recorder=DoubleOfRecorder, step_attention=step_attention)
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: kernels)
    recorded, same = gpu_checks.check_recorded_search(CPU)
    assert recorded.passed
    assert same.passed
    assert same.detail == "the hypotheses of 40 of 40 sentences are equal"


def test_recorded_steps_that_compute_something_else_are_noticed(monkeypatch):
    class Wrong(DoubleOfRecorder):
        """Repeats work as it was before the search."""

        def record(self, work):
            super().record(work)
            return lambda: None

    kernels = Kernels(steps_per_look=8, recorder=Wrong)
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: kernels)
    recorded, same = gpu_checks.check_recorded_search(CPU)
    assert recorded.passed
    assert not same.passed


def test_work_that_cannot_be_recorded_is_a_failed_check(monkeypatch):
    class Unable(DoubleOfRecorder):
        def record(self, work):
            self.failure = "CUDA error: operation not permitted when stream is capturing"
            work()
            return work

    kernels = Kernels(steps_per_look=8, recorder=Unable)
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: kernels)
    recorded, same = gpu_checks.check_recorded_search(CPU)
    assert not recorded.passed
    assert "not permitted when stream is capturing" in recorded.detail
    assert same.passed
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: Kernels())
    [recorded] = gpu_checks.check_recorded_search(CPU)
    assert not recorded.passed
