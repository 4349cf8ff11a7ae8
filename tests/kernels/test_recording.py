"""Recorded work. On a GPU it is what the work itself computes; whether a GPU is asked at all is tested without one."""

import contextlib
from types import SimpleNamespace

import pytest
import torch

from nmt.kernels import recording
from nmt.kernels.policy import choose_kernels
from nmt.kernels.recording import CudaRecorder, cuda_recorder_if_possible, without_cached_casts
from nmt.machine import device as device_module
from nmt.machine.device import is_out_of_memory, release_memory

GPU = torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("changes", "failure"),
    [
        ({}, None),
        ({"is_available": False}, None),
        ({"fails": True}, "CUDA error: operation not permitted when stream is capturing"),
        ({"differs": "recorded work computed something else"}, "recorded work computed something else"),
    ],
    ids=str,
)
def test_only_a_gpu_that_can_record_does_and_the_reason_is_kept(monkeypatch, changes, failure):
    given = {"is_available": True, "fails": False, "differs": None} | changes

    def tried(device):
        if given["fails"]:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        return given["differs"]

    monkeypatch.setattr(CudaRecorder, "failures", {})
    monkeypatch.setattr(recording, "_try_to_record", tried)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: given["is_available"])
    assert (cuda_recorder_if_possible(GPU) is None) == bool(changes)
    assert (choose_kernels(GPU).recorder is None) == bool(changes)
    assert choose_kernels(torch.device("mps")).recorder is None
    assert choose_kernels(None).recorder is None
    assert CudaRecorder.failures.get(GPU) == failure


def test_running_out_of_memory_in_the_trial_is_an_error(monkeypatch):
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


class Cuda:
    """What :class:`CudaRecorder` asks of ``torch.cuda``, with what it did."""

    def __init__(self, monkeypatch, *, fails: BaseException | None = None, free: int = 100) -> None:
        self.done: list[str] = []
        self.emptied: list[int] = []
        """For each time that the cache was emptied: how much was done before."""
        self._fails, self._free = fails, free
        self.stream = SimpleNamespace(wait_stream=lambda other: self.done.append("stream waits"))
        self.current = SimpleNamespace(wait_stream=lambda other: self.done.append("current waits"))
        answers = {
            "Stream": lambda device: self.stream, "graph_pool_handle": lambda: 0, "CUDAGraph": self._graph,
            "current_stream": lambda device: self.current, "stream": lambda stream: contextlib.nullcontext(),
            "set_stream": lambda stream: self.done.append("current again"), "graph": self._recording,
            "empty_cache": lambda: self.emptied.append(len(self.done)),
            "mem_get_info": lambda device: (self._free, 100),
            "memory_reserved": lambda device: 60 if "stream waits" in self.done else 10,
        }  # fmt: skip
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, answer, raising=False)
        monkeypatch.setattr(CudaRecorder, "failures", {})
        monkeypatch.setattr(device_module, "_KEPT", set())
        recording._stream.cache_clear()

    def _graph(self):
        return SimpleNamespace(replay=lambda: self.done.append("replay"))

    @contextlib.contextmanager
    def _recording(self, graph, **options):
        self.done.append("recording")
        yield
        if self._fails is not None:
            raise self._fails


def test_work_is_run_then_recorded_and_later_replayed(monkeypatch):
    cuda = Cuda(monkeypatch)
    replay = CudaRecorder(GPU).record(lambda: cuda.done.append("work"))
    replay()
    expected = ["stream waits", "work", "current waits", "recording", "work", "current again", "replay"]
    assert cuda.done == expected


def test_work_whose_recording_would_not_fit_is_not_recorded(monkeypatch):
    cuda = Cuda(monkeypatch, free=55)  # the work needs 50
    recorder = CudaRecorder(GPU)
    recorder.record(lambda: cuda.done.append("work"))()
    assert cuda.done == ["stream waits", "work", "current waits", "work"]
    assert recorder.failure is None


def test_after_a_failure_nothing_is_recorded(monkeypatch):
    cuda = Cuda(monkeypatch, fails=RuntimeError("CUDA error: operation not permitted when stream is capturing"))
    recorder = CudaRecorder(GPU)
    recorder.record(lambda: cuda.done.append("work"))()
    assert cuda.done[-3:] == ["work", "current again", "work"]
    cuda.emptied.clear()
    release_memory(GPU)
    for one in (recorder, CudaRecorder(GPU)):
        assert "not permitted" in one.failure
        cuda.done.clear()
        one.record(lambda: cuda.done.append("work"))
        assert "recording" not in cuda.done
    assert cuda.emptied == []  # which would end the process


def test_running_out_of_memory_while_recording_is_an_error(monkeypatch):
    """A GPU cannot end a recording in which an operation failed: the cause is the context of that error."""
    ended = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    ended.__context__ = torch.OutOfMemoryError("CUDA out of memory")
    cuda = Cuda(monkeypatch, fails=ended)
    recorder = CudaRecorder(GPU)
    with pytest.raises(RuntimeError, match="previous error") as caught:
        recorder.record(lambda: None)
    assert is_out_of_memory(caught.value)
    assert recorder.failure is None
    assert cuda.done[-1] == "current again"


def test_work_that_fails_is_waited_for(monkeypatch):
    cuda = Cuda(monkeypatch)

    def fail():
        raise ValueError("a mistake of this test")

    with pytest.raises(ValueError, match="a mistake"):
        CudaRecorder(GPU).record(fail)
    assert cuda.done == ["stream waits", "current waits"]
