"""The choice of device, precision and threads."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from nmt.errors import ConfigError
from nmt.machine.cores import available_memory, bytes_in_proc, usable_cores
from nmt.machine.measured import remembered, speedup
from nmt.machine.openmp_waiting import adapt_waiting_to_load
from nmt.option_fields import DeviceChoice, Precision, PrecisionChoice

_OUT_OF_MEMORY = (
    "can't allocate memory",  # main memory
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "'out of memory'",  # NCCL: Cuda failure 2 'out of memory'
    "MPS backend out of memory",
)

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}

BASE_PRODUCT = (512, 2048)
"""d_model and d_ff of the paper's base model: the product to measure if no model's sizes are known."""
_TRIAL_ROWS = 256
# If bf16 is emulated, a full trial would take seconds. A small product shows it: its speedup is below this one.
_SMALL_TRIAL = (8, 256, 256)
EMULATED = 0.25
# A smaller speedup does not justify the rounding errors.
_MIN_SPEEDUP = 1.1


@dataclass(frozen=True)
class Hardware:
    """The device, precision and threads that a command computes with."""

    device: torch.device
    precision: Precision
    threads: int
    reason: str
    """Why this precision was chosen, for messages."""
    is_deterministic: bool = False
    """Whether a GPU computes with deterministic kernels only. A CPU always does."""

    def __str__(self) -> str:
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.device.type == "cpu" else ""
        return f"{self.device}{threads}, {self.precision}"

    @property
    def weights_dtype(self) -> torch.dtype:
        """The dtype of weights, gradients and optimiser states, in any precision of matrix products."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    @property
    def products_dtype(self) -> torch.dtype:
        """The dtype of the factors of matrix products."""
        return torch.int8 if self.precision == "int8" else self.autocast_dtype or self.weights_dtype

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """The dtype that :meth:`autocast` casts factors to; None if it casts none."""
        return _AUTOCAST.get(self.precision)

    def autocast(self) -> torch.autocast:
        """The context in which matrix products use the chosen precision."""
        dtype = self.autocast_dtype
        return torch.autocast(self.device.type, dtype or torch.bfloat16, enabled=dtype is not None)


def choose_hardware(
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: int | None = None,
    *,
    product: tuple[int, int] = BASE_PRODUCT,
    begun_in: Precision | None = None,
    deterministic: bool = False,
    local_rank: int = 0,
    local_ranks: int = 1,
) -> Hardware:
    """Choose device, precision and threads, and set the process up for them.

    Args:
        threads: CPU threads; if not given, ``OMP_NUM_THREADS`` or all usable cores.
        product: d_model and d_ff of the model; ``auto`` measures their product on a CPU.
        begun_in: the precision that an output was begun in; ``auto`` keeps it if the device supports it.
        deterministic: use only kernels that give the same bits every time.
        local_rank, local_ranks: the number of this process, and how many processes share the machine. It uses the GPU
            of its number, or its share of the cores.

    Raises:
        ConfigError: the requested device is not available, or does not support that precision.
    """
    found, unused_gpu = choose_device(device, local_rank, local_ranks)
    if found.type == "cuda":
        _choose_gpu_kernels(deterministic=deterministic)
    if precision == "auto" and begun_in is not None and computes(found, begun_in):
        chosen, reason = begun_in, "as the output was begun"
    else:
        chosen, reason = _choose_precision(found, precision, product)
    if threads is not None:
        torch.set_num_threads(threads)
    elif "OMP_NUM_THREADS" not in os.environ or (local_ranks > 1 and _is_threads_of_torchrun()):
        torch.set_num_threads(max(1, usable_cores() // local_ranks))
    if found.type == "cpu":
        _keep_freed_memory()
        if torch.get_num_threads() > 1:
            adapt_waiting_to_load()
    if found.type == "cuda" and chosen == "fp32":
        # TF32: the exponent of fp32 with 10 bits of mantissa, several times as fast.
        torch.set_float32_matmul_precision("high")
    return Hardware(found, chosen, torch.get_num_threads(), reason + unused_gpu, is_deterministic=deterministic)


def _is_threads_of_torchrun() -> bool:
    """Whether ``OMP_NUM_THREADS`` may be torchrun's choice: it sets 1 for each of several processes, if it is unset."""
    return is_under_torchrun() and os.environ["OMP_NUM_THREADS"] == "1"


def is_under_torchrun() -> bool:
    """Whether torchrun started this process. It may restart all ranks, as when a machine comes or goes."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def _choose_gpu_kernels(*, deterministic: bool) -> None:
    """Choose among torch's kernels for a GPU. Call it before the first product."""
    # On Hopper torch prefers cuDNN's attention, which builds a plan for each new shape, tens of milliseconds each.
    # Batches of sentences hardly ever repeat a shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.use_deterministic_algorithms(deterministic)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS adds in an order that differs
        # Only finds uses of memory before it is written, at the price of writing all of it.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def _own_gpu(device: torch.device, local_rank: int, local_ranks: int) -> torch.device:
    if local_ranks == 1:
        return device
    if local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"{local_ranks} processes on this machine, but it has {torch.cuda.device_count()} GPUs: each process needs "
            "its own GPU. Start one process per GPU, or use --device cpu."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception means that GPU or main memory was exhausted.

    The cause may be the exception's context: a recording in which memory runs out ends with an error of its own.
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    has_its_words = any(words in str(error) for words in _OUT_OF_MEMORY)
    return has_its_words or (error.__context__ is not None and is_out_of_memory(error.__context__))


_KEPT: set[torch.device] = set()


def keep_memory(device: torch.device) -> None:
    """From now on, let :func:`release_memory` do nothing for a GPU.

    After a failed recording of a CUDA graph, torch ends the process when the cache is emptied: the pool of the
    recording counts as in use (pytorch#180395).
    """
    _KEPT.add(device)


def release_memory(device: torch.device) -> None:
    """Return cached, unused memory to a GPU."""
    if device.type == "cuda" and device not in _KEPT:
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def memory_in_use(device: torch.device) -> int:
    """Bytes that this process uses: on a CUDA GPU the peak since :func:`forget_peak_memory`, else the current ones.

    On a CPU these are the bytes of anonymous memory; on an Apple GPU those of the driver, caches included.

    Mapped files, such as shards, do not count: the system can reclaim their pages at any time. 0 if unknown.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()
    return bytes_in_proc("self/status", "RssAnon") or 0


def forget_peak_memory(device: torch.device) -> None:
    """Reset the peak memory of a GPU."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def free_memory(device: torch.device) -> int | None:
    """Bytes that this process can still take, within the limits of its control groups; None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if device.type == "mps":
        return max(0, torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return available_memory()


def memory_for_use(device: torch.device) -> int | None:
    """Bytes that this process uses or can still take; None if unknown."""
    free = free_memory(device)
    if free is None:
        return None
    return free + (torch.cuda.memory_allocated(device) if device.type == "cuda" else memory_in_use(device))


def total_memory(device: torch.device) -> int | None:
    """All bytes of a GPU, in use or not; None for other devices."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def choose_device(device: DeviceChoice = "auto", local_rank: int = 0, local_ranks: int = 1) -> tuple[torch.device, str]:
    """The device of a process, and why ``auto`` took no GPU although there is one (empty if there is no reason).

    Raises:
        ConfigError: the requested device is not available, or this process has no GPU of its own.
    """
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    names = [name for name in ("cuda", "mps", "cpu") if available[name]]
    if device != "auto" and not available[device]:
        raise ConfigError(
            f"device {device!r} is not available here; available: {', '.join(sorted(names))}. Use --device auto to "
            "choose."
        )
    chosen = torch.device(names[0] if device == "auto" else device)
    if chosen.type == "cuda":
        chosen = _own_gpu(chosen, local_rank, local_ranks)  # first: a look at another GPU would take memory there
    missing = _missing_kernels(chosen)
    if missing is None:
        return chosen, ""
    if device == "auto":
        return torch.device("cpu"), f"; the GPU is not used: {missing}"
    raise ConfigError(f"device {device!r}: {missing}, or use --device cpu.")


def _missing_kernels(device: torch.device) -> str | None:
    """What to do about a GPU that this build of torch has no kernels for; None if it runs one."""
    if device.type != "cuda":
        return None
    try:
        torch.ones(1, device=device)
    except RuntimeError as error:
        if "no kernel image" not in str(error):
            raise
        capability = ".".join(map(str, torch.cuda.get_device_capability(device)))
        return (
            f"torch {torch.__version__} has no kernels for {torch.cuda.get_device_name(device)} (compute capability "
            f"{capability}). Install a build of torch that has: for capability 7.0 and below, one for CUDA 12.6 "
            "(cu126)"
        )
    return None


def _choose_precision(
    device: torch.device, precision: PrecisionChoice, product: tuple[int, int]
) -> tuple[Precision, str]:
    if precision != "auto":
        if not computes(device, precision):
            if precision == "int8":
                raise ConfigError(
                    f"--precision int8 needs an x86 processor, and the device is {device}: "
                    "use --device cpu on such a machine, or another precision."
                )
            raise ConfigError(
                f"the device {device} does not support {precision}: use --precision auto, or --precision fp32."
            )
        return precision, "as asked"
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device)[0] >= 8:
            return "bf16", "this GPU has it in hardware"
        if torch.cuda.get_device_capability(device)[0] >= 7:
            return "fp16", "this GPU has fp16 in hardware, but no bf16"
        return "fp32", "this GPU has neither bf16 nor fast fp16 in hardware"
    if device.type == "cpu":
        d_model, d_ff = product
        ratio = remembered(f"bf16 speedup, {d_model} by {d_ff}", lambda: bf16_speedup(d_model, d_ff))
        measured = f"bf16 is {max(ratio, 1 / ratio):.2g}× {'faster' if ratio >= 1 else 'slower'} than fp32 here"
        return ("bf16" if ratio >= _MIN_SPEEDUP else "fp32"), measured
    return "fp32", "the safe choice on this device"


def computes(device: torch.device, precision: Precision) -> bool:
    """Whether a device supports a precision, be it slowly: a small matrix product is tried."""
    if precision == "int8":
        return device.type == "cpu" and _cpu_has_int8()
    dtype = {"fp64": torch.float64, **_AUTOCAST}.get(precision)
    if dtype is None:
        return True
    try:
        torch.mm(*(torch.ones(8, 8, dtype=dtype, device=device) for _ in range(2)))
    except (RuntimeError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        return False
    return True


@functools.cache
def bf16_speedup(d_model: int, d_ff: int) -> float:
    """The measured speedup of bf16 over fp32 for matrix products of these sizes on this CPU."""
    # Products larger than those of the base model take longer and give the same ratio.
    d_model, d_ff = min(d_model, BASE_PRODUCT[0]), min(d_ff, BASE_PRODUCT[1])
    small = _bf16_speedup(*_SMALL_TRIAL)
    return small if small < EMULATED else _bf16_speedup(_TRIAL_ROWS, d_model, d_ff)


def _bf16_speedup(rows: int, d_model: int, d_ff: int) -> float:
    x, weight = torch.ones(rows, d_model), torch.ones(d_model, d_ff)
    x_bf16, weight_bf16 = x.bfloat16(), weight.bfloat16()
    return speedup(lambda: torch.mm(x, weight), lambda: torch.mm(x_bf16, weight_bf16))


def _cpu_has_int8() -> bool:
    return "fbgemm" in torch.backends.quantized.supported_engines


def _keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of handing it back to the system.

    Every update frees and allocates the same large tensors. By default glibc maps and unmaps them each time, and the
    kernel zeroes their pages again, which costs up to a quarter of the training time.
    """
    if not sys.platform.startswith("linux") or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return
    m_trim_threshold, m_mmap_threshold = -1, -3  # from malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # Another C library does not have these settings.
    # Older versions of glibc refuse thresholds over 32 MiB. Where it accepts none, it is left alone: any other setting
    # ends the adjustment that it makes itself.
    if mallopt(m_mmap_threshold, 1 << 30) or mallopt(m_mmap_threshold, 32 << 20):
        mallopt(m_trim_threshold, (1 << 31) - 1)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor from main memory to a device. The host does not wait for a CUDA GPU."""
    if device.type != "cuda":
        return tensor.to(device)
    # From memory that is not pinned, the driver may copy only when the GPU has done its work.
    return tensor.pin_memory().to(device, non_blocking=True)


def begin_to_host(tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
    """Begin to copy a tensor to main memory; the result waits for the copy. The host need not wait for a CUDA GPU."""
    if tensor.device.type != "cuda":
        return lambda: tensor
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    copy.copy_(tensor, non_blocking=True)
    is_copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    is_copied.record()

    def wait() -> torch.Tensor:
        is_copied.synchronize()
        return copy

    return wait


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
