"""Which precision ``auto`` takes, and how many threads."""

import os
from types import SimpleNamespace

import pytest
import torch

from nmt.errors import ConfigError
from nmt.machine import device
from nmt.machine.device import bf16_speedup, choose_hardware


@pytest.fixture(autouse=True)
def threads_kept():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("speedup", "precision", "said"),
    [
        (6.0, "bf16", "6× faster"),
        (1.87, "bf16", "1.9× faster"),
        (1.05, "fp32", "1.1× faster"),
        (0.2, "fp32", "5× slower"),
    ],
)
def test_auto_takes_bf16_where_it_is_measurably_faster(monkeypatch, speedup, precision, said):
    monkeypatch.setattr(device, "bf16_speedup", lambda d_model, d_ff: speedup)
    hardware = choose_hardware("cpu")
    assert hardware.precision == precision
    assert hardware.reason == f"bf16 is {said} than fp32 here"


def test_the_trial_compares_products_of_both_types(monkeypatch):
    monkeypatch.setattr(device, "speedup", lambda slower, faster: (slower().dtype, faster().dtype, slower().shape))
    monkeypatch.setattr(device, "EMULATED", (torch.float32, torch.bfloat16, (0, 0)))
    bf16_speedup.cache_clear()
    try:
        assert bf16_speedup(96, 384) == (torch.float32, torch.bfloat16, (device._TRIAL_ROWS, 384))
        bf16_speedup.cache_clear()
        # Products larger than those of the base model take longer and give the same ratio.
        assert bf16_speedup(4_096, 16_384) == (torch.float32, torch.bfloat16, (device._TRIAL_ROWS, 2_048))
    finally:
        bf16_speedup.cache_clear()


def test_the_trial_is_short_where_bf16_is_emulated(monkeypatch):
    shapes = []
    monkeypatch.setattr(device, "_bf16_speedup", lambda *shape: shapes.append(shape) or 0.02)
    bf16_speedup.cache_clear()
    assert bf16_speedup(512, 2048) == 0.02
    bf16_speedup.cache_clear()
    assert shapes == [device._SMALL_TRIAL]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp64"])
def test_a_precision_that_the_device_has_no_products_in_is_refused(monkeypatch, precision):
    product = torch.mm

    def refusing(x, weight):
        if x.dtype != torch.float32:
            raise RuntimeError("not implemented for this type")
        return product(x, weight)

    assert choose_hardware("cpu", precision).precision == precision
    monkeypatch.setattr(torch, "mm", refusing)
    with pytest.raises(ConfigError, match=f"does not support {precision}.*--precision auto"):
        choose_hardware("cpu", precision)


def test_threads_are_the_usable_cores_unless_somebody_says_otherwise(monkeypatch):
    monkeypatch.setattr(device, "usable_cores", lambda: 3)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert choose_hardware("cpu", "fp32").threads == 3
    assert choose_hardware("cpu", "fp32", 2).threads == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert choose_hardware("cpu", "fp32").threads == 2


@pytest.mark.parametrize(
    ("variables", "threads"),
    [
        ({}, 4),  # a third of the cores
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "1"}, 1),
        ({"OMP_NUM_THREADS": "3", "TORCHELASTIC_RUN_ID": "x"}, 3),
        ({"OMP_NUM_THREADS": "1", "TORCHELASTIC_RUN_ID": "x"}, 4),  # torchrun itself sets 1
    ],
)
def test_each_of_several_ranks_has_its_share_of_the_cores_unless_the_user_says_otherwise(
    monkeypatch, variables, threads
):
    monkeypatch.setattr(device, "usable_cores", lambda: 12)
    for name in ("OMP_NUM_THREADS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    torch.set_num_threads(int(variables.get("OMP_NUM_THREADS", "9")))  # as it does when it is loaded
    assert choose_hardware("cpu", "fp32", local_rank=1, local_ranks=3).threads == threads
    assert choose_hardware("cpu", "fp32", 7, local_rank=1, local_ranks=3).threads == 7


@pytest.mark.parametrize(
    ("accepted", "set_"),
    [
        (1 << 30, [(-3, 1 << 30), (-1, (1 << 31) - 1)]),
        (32 << 20, [(-3, 32 << 20), (-1, (1 << 31) - 1)]),  # glibc 2.30
        (0, []),  # to set the other alone would end the adjustment that it makes itself
    ],
)
def test_freed_memory_is_kept_where_glibc_accepts_it(monkeypatch, accepted, set_):
    done = []

    def mallopt(option: int, value: int) -> int:
        if option == -3 and value > accepted:
            return 0
        done.append((option, value))
        return 1

    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.setattr(device.ctypes, "CDLL", lambda name: SimpleNamespace(mallopt=mallopt))
    device._keep_freed_memory()
    assert done == set_
    done.clear()
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")  # the user's choice
    device._keep_freed_memory()
    assert done == []


@pytest.mark.parametrize(
    ("asked", "begun_in", "expected"),
    [("auto", "fp32", "fp32"), ("auto", "fp64", "fp64"), ("fp32", "fp64", "fp32"), ("auto", "int8", "bf16")],
)
def test_auto_keeps_what_an_output_was_begun_in_where_the_device_has_it(monkeypatch, asked, begun_in, expected):
    monkeypatch.setattr("nmt.machine.device.bf16_speedup", lambda *_: 3.0)
    monkeypatch.setattr("nmt.machine.device._cpu_has_int8", lambda: False)
    found = choose_hardware("cpu", asked, begun_in=begun_in)
    assert found.precision == expected
    assert (found.reason == "as the output was begun") == (asked == "auto" and expected == begun_in)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_gpu_gets_kernels_that_suit_batches_of_sentences(monkeypatch, deterministic):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        device._choose_gpu_kernels(deterministic=deterministic)
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.are_deterministic_algorithms_enabled() == deterministic
        assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == deterministic
        assert torch.utils.deterministic.fill_uninitialized_memory != deterministic
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
        torch.use_deterministic_algorithms(False)
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)


class OldGpu:
    """What the choice of a device asks of a GPU that torch has no kernels for."""

    def __init__(self, monkeypatch) -> None:
        def ones(*size, device):
            raise RuntimeError("CUDA error: no kernel image is available for execution on the device")

        monkeypatch.setattr(torch, "ones", ones)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100")


def test_a_gpu_without_kernels_is_not_taken(monkeypatch):
    OldGpu(monkeypatch)
    found = choose_hardware("auto", "fp32")
    assert found.device == torch.device("cpu")
    assert "the GPU is not used: torch" in found.reason
    with pytest.raises(ConfigError, match=r"(?s)no kernels for Tesla V100 \(compute capability 7\.0\).*cu126"):
        choose_hardware("cuda", "fp32")


def test_a_rank_looks_at_its_own_gpu_alone(monkeypatch):
    """A look at another one would take memory there, and fails where a GPU serves one process only."""
    looked_at, own = [], []
    OldGpu(monkeypatch)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "set_device", own.append)
    monkeypatch.setattr(torch, "ones", lambda *size, device: looked_at.append((own[:], device)))
    assert device.choose_device("auto", local_rank=3, local_ranks=8) == (torch.device("cuda", 3), "")
    assert looked_at == [([3], torch.device("cuda", 3))]


def test_another_error_of_a_gpu_is_not_taken_for_missing_kernels(monkeypatch):
    OldGpu(monkeypatch)

    def ones(*size, device):
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")

    monkeypatch.setattr(torch, "ones", ones)
    with pytest.raises(RuntimeError, match="ECC"):
        choose_hardware("auto", "fp32")


def test_the_memory_of_an_apple_gpu_is_bounded(monkeypatch):
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 100)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 30)
    apple = torch.device("mps")
    assert (device.memory_in_use(apple), device.free_memory(apple), device.memory_for_use(apple)) == (30, 70, 100)
