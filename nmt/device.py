"""Which device, which precision, how many threads, and why."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from typing import Literal

import torch

from nmt.errors import ConfigError

DeviceChoice = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16", "fp16", "fp64", "int8"]
PrecisionChoice = Literal["auto"] | Precision

_OUT_OF_MEMORY = (
    "can't allocate memory",  # of the machine
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
)

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Hardware:
    """What a command computes on."""

    device: torch.device
    precision: Precision
    threads: int
    reason: str
    """Why this precision, for people."""

    def __str__(self) -> str:
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.device.type == "cpu" else ""
        return f"{self.device}{threads}, {self.precision}"

    @property
    def weights_dtype(self) -> torch.dtype:
        """Of weights, gradients and optimiser, whatever the matrix products take."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    @property
    def products_dtype(self) -> torch.dtype:
        """That matrix products take their factors in."""
        return torch.int8 if self.precision == "int8" else _AUTOCAST.get(self.precision, self.weights_dtype)

    def autocast(self) -> torch.autocast:
        """Within it, matrix products take the precision that was chosen."""
        is_mixed = self.precision in _AUTOCAST
        return torch.autocast(self.device.type, _AUTOCAST.get(self.precision, torch.bfloat16), enabled=is_mixed)


def choose_hardware(
    device: DeviceChoice = "auto",
    precision: PrecisionChoice = "auto",
    threads: int | None = None,
    *,
    local_rank: int = 0,
    local_ranks: int = 1,
) -> Hardware:
    """Settle device, precision and threads, and set the process up for them.

    Args:
        local_rank, local_ranks: of this process among those that share the machine: it takes the GPU of that number,
            or its share of the cores.

    Raises:
        ConfigError: the device that was asked for is not there, or does not compute in that precision.
    """
    found = _choose_device(device)
    if found.type == "cuda":
        found = _own_gpu(found, local_rank, local_ranks)
    chosen, reason = _choose_precision(found, precision)
    if threads is not None:
        torch.set_num_threads(threads)
    elif local_ranks > 1:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // local_ranks))
    if found.type == "cpu":
        _keep_freed_memory()
    if found.type == "cuda" and chosen == "fp32":
        # TF32: the exponent of fp32 with 10 bits of mantissa, several times as fast.
        torch.set_float32_matmul_precision("high")
    return Hardware(found, chosen, torch.get_num_threads(), reason)


def _own_gpu(device: torch.device, local_rank: int, local_ranks: int) -> torch.device:
    if local_ranks == 1:
        return device
    if local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"{local_ranks} processes on this machine, but it has {torch.cuda.device_count()} GPUs: a process needs a "
            "GPU of its own. Start as many as there are GPUs, or use --device cpu."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory, of a GPU or of the machine, did not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)


def release_memory(device: torch.device) -> None:
    """Give a GPU back what is kept for later use but not in use."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def memory_in_use(device: torch.device) -> int:
    """Bytes that this process holds: on a GPU the most since :func:`forget_peak_memory`, else anonymous memory now.

    Files that are mapped, such as shards, do not count: the system takes their pages back when it likes. 0 where the
    system does not tell.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:"))
    except (OSError, StopIteration):
        return 0


def forget_peak_memory(device: torch.device) -> None:
    """Let a GPU's peak begin anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def memory_for_use(device: torch.device) -> int | None:
    """Bytes that this process may come to hold in all; None where the system does not tell."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    try:
        with open("/proc/meminfo", encoding="ascii") as meminfo:  # noqa: PTH123
            available = next(int(line.split()[1]) * 1024 for line in meminfo if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return available + memory_in_use(device)


def _choose_device(device: DeviceChoice) -> torch.device:
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if available[name]))
    if not available[device]:
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise ConfigError(f"device {device!r} is not available here; available: {there}. Use --device auto to choose.")
    return torch.device(device)


def _choose_precision(device: torch.device, precision: PrecisionChoice) -> tuple[Precision, str]:
    if precision == "int8" and (device.type != "cpu" or not _cpu_has_int8()):
        raise ConfigError(
            f"--precision int8 needs an x86 processor, and the device is {device}: "
            "use --device cpu where there is one, or another precision."
        )
    if precision != "auto":
        _check_computes(device, precision)
        return precision, "as asked"
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device)[0] >= 8:
            return "bf16", "this GPU has it in hardware"
        if torch.cuda.get_device_capability(device)[0] >= 7:
            return "fp16", "this GPU has fp16 in hardware, but no bf16"
        return "fp32", "this GPU has neither bf16 nor fast fp16 in hardware"
    if device.type == "cpu":
        if _cpu_has_fast_bf16():
            return "bf16", "this processor has AMX"
        return "fp32", "this processor has no AMX: bf16 would be slower"
    return "fp32", "the safe choice on this device"


def _check_computes(device: torch.device, precision: Precision) -> None:
    """Try a product.

    Raises:
        ConfigError: the device has none in this precision.
    """
    dtype = torch.float64 if precision == "fp64" else _AUTOCAST.get(precision, torch.float32)
    try:
        one = torch.ones(8, 8, dtype=dtype, device=device)
        (one @ one).sum().item()
    except (RuntimeError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        raise ConfigError(
            f"--precision {precision} is not supported on {device} here: use --precision fp32, or auto to choose."
        ) from None


def _cpu_has_fast_bf16() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as cpuinfo:  # noqa: PTH123
            return any(line.startswith("flags") and " amx_bf16" in line for line in cpuinfo)
    except OSError:
        return False


def _cpu_has_int8() -> bool:
    return "fbgemm" in torch.backends.quantized.supported_engines


def _keep_freed_memory() -> None:
    """Tell glibc to keep freed memory instead of handing it back to the system.

    Every update frees and takes the same large tensors. By default glibc maps and unmaps them each time, and the
    kernel zeroes their pages anew, which costs up to a quarter of the training time.
    """
    if not sys.platform.startswith("linux") or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return
    m_trim_threshold, m_mmap_threshold = -1, -3  # from malloc.h
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(m_mmap_threshold, 1 << 30)
        libc.mallopt(m_trim_threshold, (1 << 31) - 1)
    except (OSError, AttributeError):
        return  # another C library, without these settings


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done all that it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
