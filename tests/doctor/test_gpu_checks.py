"""The doctor's checks of a GPU, run on a CPU: they pass where all is right, and notice what is not."""

import subprocess
import warnings
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from nmt.checkpoint.bundle_files import BundleFolder
from nmt.checkpoint.run_folder import RunFolder
from nmt.device import choose_hardware
from nmt.doctor import gpu_checks
from nmt.doctor.generated_text import generated_data_set
from nmt.kernels.policy import Kernels
from nmt.kernels.sentence_rows import masked_attention
from nmt.training.learner import Learner
from tests.recording_double import DoubleOfRecorder

CPU = choose_hardware("cpu", "fp32", 1)


@pytest.mark.slow
def test_a_run_that_resumes_with_equal_bits_passes_and_another_does_not(tmp_path, monkeypatch):
    data = generated_data_set(tmp_path / "text", 300)
    check = gpu_checks.check_deterministic(CPU, data, tmp_path)
    assert check.passed, check.detail
    assert check.detail.endswith("tensors are equal")

    weights = BundleFolder(RunFolder(tmp_path / "deterministic-stopped").checkpoint(6)).weights
    tensors = load_file(weights)
    next(iter(tensors.values())).view(-1)[0] += 1e-6
    save_file(tensors, weights)
    ended = SimpleNamespace(returncode=0)
    monkeypatch.setattr(gpu_checks.subprocess, "run", lambda *arguments, **options: ended)
    check = gpu_checks.check_deterministic(CPU, data, tmp_path)
    assert not check.passed
    assert "1 of" in check.detail


def test_a_run_that_fails_is_a_failed_check(tmp_path, monkeypatch):
    ended = subprocess.CompletedProcess([], 2, stderr="Error: no such thing\n")
    monkeypatch.setattr(gpu_checks.subprocess, "run", lambda *arguments, **options: ended)
    check = gpu_checks.check_deterministic(CPU, tmp_path, tmp_path)
    assert not check.passed
    assert check.detail == "Error: no such thing"


@pytest.fixture
def told_by_torch(monkeypatch):
    """torch's warnings about waits, which it gives of a GPU alone."""
    modes = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    return modes


@pytest.mark.parametrize(("waits", "passed"), [(0, True), (1, True), (2, False)])
def test_waits_of_the_host_are_counted(told_by_torch, monkeypatch, waits, passed):
    plain = Learner.update

    def update(self, *arguments, **options):
        for _ in range(waits):
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(Learner, "update", update)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_update, of_search = gpu_checks.check_host_reads(CPU)
    assert of_update.passed is passed
    assert of_update.detail == f"{waits} times; allowed 1"
    assert of_search.passed
    assert told_by_torch == ["warn", 0, "warn", 0]


@pytest.mark.parametrize(("factor", "passed"), [(1.0, True), (1.1, False)])
def test_attention_over_sentences_is_compared_with_float64(monkeypatch, factor, passed):
    def attend(*arguments):
        return factor * masked_attention(*arguments)

    kernels = Kernels(sentence_attention=attend)
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: kernels)
    checks = gpu_checks.check_sentence_attention(choose_hardware("cpu", "bf16", 1))
    assert [check.passed for check in checks] == [passed, passed]


def test_nothing_is_compared_where_sentences_are_padded():
    assert gpu_checks.check_sentence_attention(CPU) == []


def test_a_recorded_search_is_compared_with_one_kernel_by_kernel(monkeypatch):
    kernels = Kernels(steps_per_look=8, recorder=DoubleOfRecorder)
    monkeypatch.setattr(gpu_checks, "choose_kernels", lambda device, products: kernels)
    recorded, same = gpu_checks.check_recorded_search(CPU)
    assert recorded.passed
    assert same.passed
    assert same.detail == "160 of 160 hypotheses are equal"


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
