"""What ``torch.cuda`` answers, for one H100 with 80 GB."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F

from nmt.kernels import recording
from nmt.kernels.recording import Work
from tests.fake_gpu.attention import scaled_dot_product_attention
from tests.fake_gpu.gpu import FakeGpu

MEMORY = 80 * 1024**3
"""Bytes of the GPU."""


class Event:
    """An event of a GPU whose work is done at once."""

    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing

    def record(self, stream: Any = None) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds."""
        assert self.enable_timing and end.enable_timing
        return 10.0

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        _gpu().note_wait("Event.synchronize")


class Recorder:
    """A recorder of work that runs it kernel by kernel; a CUDA graph could not hold work that waits for the GPU."""

    failure = None
    replays = 0

    def __init__(self, device: torch.device) -> None:
        assert device.type == "cuda"

    def record(self, work: Work) -> Work:
        def run() -> None:
            before = list(_gpu().waits), list(_gpu().unpinned)
            work()
            assert before == (_gpu().waits, _gpu().unpinned), "recorded work waits for the GPU"

        def replay() -> None:
            Recorder.replays += 1
            run()

        with recording.without_cached_casts():
            run()
        return replay


def install() -> None:
    """Let ``torch.cuda`` and methods of tensors answer for the fake GPU, while there is one in this process."""
    cuda = torch.cuda
    cuda.is_available = lambda: FakeGpu.current is not None
    cuda.device_count = lambda: int(cuda.is_available())
    cuda._lazy_init = lambda: None
    cuda.current_device = lambda: 0
    cuda.is_bf16_supported = lambda *args, **options: True
    cuda.get_device_name = lambda device=None: "fake H100"
    cuda.get_device_capability = lambda device=None: (9, 0)
    cuda.get_device_properties = lambda device=None: SimpleNamespace(total_memory=MEMORY, name="fake H100", major=9)
    cuda.mem_get_info = lambda device=None: (MEMORY - _gpu().used, MEMORY)
    cuda.memory_reserved = cuda.memory_allocated = lambda device=None: _gpu().used
    cuda.max_memory_allocated = lambda device=None: _gpu().peak
    cuda.reset_peak_memory_stats = lambda device=None: setattr(_gpu(), "peak", _gpu().used)
    cuda.empty_cache = lambda: None
    cuda.synchronize = lambda device=None: _gpu().note_wait("torch.cuda.synchronize")
    cuda.manual_seed_all = lambda seed: None
    cuda.Event = Event
    cuda.get_sync_debug_mode = lambda: 0
    cuda.set_sync_debug_mode = _set_sync_debug_mode
    torch.Tensor.pin_memory = _pin_memory
    torch.Tensor.is_pinned = lambda tensor, *args: getattr(tensor, "is_in_pinned_memory", False)
    F.scaled_dot_product_attention = scaled_dot_product_attention
    recording.CudaRecorder = Recorder
    recording._try_to_record = lambda device: None
    # torch refuses these for every kind of tensor but its own.
    torch.Tensor.tolist = _of_copy(torch.Tensor.tolist)
    torch.Tensor.numpy = _of_copy(torch.Tensor.numpy)
    FakeTensor.tolist = torch.Tensor.tolist
    FakeTensor.data = property(torch.Tensor.data.__get__, _set_data)


def _gpu() -> FakeGpu:
    assert FakeGpu.current is not None
    return FakeGpu.current


def _set_sync_debug_mode(mode: int | str) -> None:
    _gpu().warns = mode == "warn"


def _pin_memory(tensor: Tensor, device: Any = None) -> Tensor:
    assert tensor.device.type == "cpu", "only memory of the host can be pinned"
    pinned = tensor.clone()
    pinned.is_in_pinned_memory = True
    return pinned


def _set_data(tensor: FakeTensor, data: FakeTensor) -> None:
    """torch exchanges the tensor in place, but not what belongs to its Python object."""
    torch.Tensor.data.__set__(tensor, data)
    if hasattr(data, "on_host"):
        tensor.on_host = data.on_host


def _of_copy(method: Any) -> Any:
    def of_copy(tensor: Tensor, *arguments: Any, **options: Any) -> Any:
        if isinstance(tensor, FakeTensor):
            assert method.__name__ != "numpy" or options.get("force"), "a GPU's tensor has no array"
            tensor = tensor.detach().cpu()
        return method(tensor, *arguments, **options)

    return of_copy
