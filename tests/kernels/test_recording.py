"""Recorded work. On a GPU it is what the work itself computes; whether a GPU is asked at all is tested without one."""

import pytest
import torch

from nmt.kernels import recording
from nmt.kernels.policy import choose_kernels
from nmt.kernels.recording import CudaRecorder, cuda_recorder_if_possible, without_cached_casts

GPU = torch.device("cuda", 0)


@pytest.mark.parametrize("changes", [{}, {"is_available": False}, {"fails": True}], ids=str)
def test_only_a_gpu_that_can_record_does(monkeypatch, changes):
    given = {"is_available": True, "fails": False} | changes

    def tried(device):
        if given["fails"]:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(recording, "_try_to_record", tried)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: given["is_available"])
    assert (cuda_recorder_if_possible(GPU) is None) == bool(changes)
    assert (choose_kernels(GPU).recorder is None) == bool(changes)
    assert choose_kernels(torch.device("mps")).recorder is None
    assert choose_kernels(None).recorder is None


def test_memory_that_ends_in_the_trial_is_no_missing_ability(monkeypatch):
    def tried(device):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(recording, "_try_to_record", tried)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(torch.OutOfMemoryError):
        cuda_recorder_if_possible(GPU)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_recorded_backward_pass_is_the_one_that_is_not():
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(0.5), torch.nn.Linear(64, 64)).to(GPU)
    given = torch.zeros(8, 64, device=GPU)
    parameters = list(layer.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)

    def work():
        layer(given).square().sum().backward()

    def gradients(run, seed):
        for parameter in parameters:
            parameter.grad.zero_()
        given.copy_(torch.full((8, 64), float(seed)))
        torch.manual_seed(seed)
        run()
        return [parameter.grad.clone() for parameter in parameters]

    expected = [gradients(work, seed) for seed in (1, 2)]
    replay = CudaRecorder(GPU).record(work)
    for seed, wanted in zip((1, 2), expected, strict=True):
        for found, one in zip(gradients(replay, seed), wanted, strict=True):
            torch.testing.assert_close(found, one)


def test_weights_are_cast_in_each_run_of_recorded_work():
    weight = torch.zeros(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16), without_cached_casts():
        before = torch.ones(1, 4) @ weight
        with torch.no_grad():
            weight.fill_(1.0)
        after = torch.ones(1, 4) @ weight
    assert before.sum() == 0
    assert after.sum() == 16
    assert torch.is_autocast_cache_enabled()


def test_autocast_keeps_casts_otherwise():
    weight = torch.zeros(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        torch.ones(1, 4) @ weight
        with torch.no_grad():
            weight.fill_(1.0)
        assert (torch.ones(1, 4) @ weight).sum() == 0
